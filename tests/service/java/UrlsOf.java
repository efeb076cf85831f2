import dev.floodmark.sample.Sample;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.*;
import org.apache.dubbo.config.*;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.rpc.model.ApplicationModel;
import org.apache.dubbo.rpc.model.ProviderModel;
import org.apache.dubbo.rpc.service.GenericService;

/**
 * Exports the sample service under each configuration of stdin and prints the URLs that it registers.
 * Lines: `case NAME`, then `section key value` or `section name key value`, then `end`.
 */
public class UrlsOf {
    public static void main(String[] arguments) {
        try {
            exportAll();
            System.out.flush();
            Runtime.getRuntime().halt(0);
        } catch (Throwable problem) {
            problem.printStackTrace();
            Runtime.getRuntime().halt(1); // Dubbo's threads would keep it alive
        }
    }

    private static void exportAll() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        List<String[]> lines = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("end")) {
                export(lines);
                lines.clear();
            } else {
                lines.add(line.split(" ", 4));
            }
        }
    }

    private static void export(List<String[]> lines) throws Exception {
        ApplicationConfig application = new ApplicationConfig();
        application.setQosEnable(false);
        ModuleConfig module = null;
        MonitorConfig monitor = null;
        ProviderConfig provider = null;
        List<RegistryConfig> registries = new ArrayList<>();
        Map<String, ProtocolConfig> protocols = new LinkedHashMap<>();
        Map<String, MethodConfig> methods = new LinkedHashMap<>();
        Map<String, ArgumentConfig> callbacks = new LinkedHashMap<>();
        ServiceConfig<Sample> service = new ServiceConfig<>();
        String name = "";
        boolean isGeneric = false;
        for (String[] line : lines) {
            switch (line[0]) {
                case "case": name = line[1]; break;
                case "application": set(application, line[1], line[2]); break;
                case "module": if (module == null) module = new ModuleConfig(); set(module, line[1], line[2]); break;
                case "monitor": if (monitor == null) monitor = new MonitorConfig(); set(monitor, line[1], line[2]); break;
                case "provider": if (provider == null) provider = new ProviderConfig(); set(provider, line[1], line[2]); break;
                case "registry":
                    RegistryConfig registry = new RegistryConfig(line[1]);
                    registry.setUseAsConfigCenter(false);
                    registry.setUseAsMetadataCenter(false);
                    if (line.length > 2) set(registry, line[2], line[3]);
                    registries.add(registry);
                    break;
                case "protocol": set(protocols.computeIfAbsent(line[1], key -> new ProtocolConfig("dubbo")), line[2], line[3]); break;
                case "generic": isGeneric = true; break;
                case "service": set(service, line[1], line[2]); break;
                case "method":
                    MethodConfig method = methods.computeIfAbsent(line[1], key -> new MethodConfig());
                    method.setName(line[1]);
                    set(method, line[2], line[3]);
                    break;
                case "argument":
                    ArgumentConfig argument = callbacks.computeIfAbsent(line[1], key -> new ArgumentConfig());
                    set(argument, line[2], line[3]);
                    methods.get(line[1]).setArguments(Collections.singletonList(argument));
                    break;
                case "parameter":
                    if (line[1].equals("provider") && provider == null) provider = new ProviderConfig();
                    AbstractMethodConfig config = line[1].equals("service") ? service : provider;
                    if (config.getParameters() == null) config.setParameters(new HashMap<>());
                    config.getParameters().put(line[2], line[3]);
                    break;
                default: throw new IllegalArgumentException(line[0]);
            }
        }
        service.setApplication(application);
        if (module != null) service.setModule(module);
        if (monitor != null) service.setMonitor(monitor);
        if (provider != null) service.setProvider(provider);
        service.setRegistries(registries);
        service.setProtocols(new ArrayList<>(protocols.values()));
        if (!methods.isEmpty()) service.setMethods(new ArrayList<>(methods.values()));
        service.setInterface(Sample.class);
        service.setRef((Sample) Proxy.newProxyInstance(Sample.class.getClassLoader(), new Class<?>[] {Sample.class},
                (proxy, called, values) -> called.getName().equals("hashCode") ? (Object) 1 : called.getName().equals("toString") ? "sample" : null));
        if (isGeneric) {
            @SuppressWarnings({"unchecked", "rawtypes"})
            ServiceConfig<Object> raw = (ServiceConfig) service;
            raw.setInterface(Sample.class.getName());
            raw.setRef((GenericService) (method, types, values) -> null);
        }
        service.export();
        System.out.println("case " + name);
        for (int i = 0; i < 200 && registered().isEmpty(); i++) Thread.sleep(25); // it may be delayed
        for (String url : registered()) System.out.println(url);
        DubboBootstrap.reset(false);
    }

    private static List<String> registered() {
        List<String> urls = new ArrayList<>();
        for (ProviderModel model : ApplicationModel.allProviderModels())
            for (ProviderModel.RegisterStatedURL url : model.getStatedUrl()) urls.add(url.getProviderUrl().toFullString());
        return urls;
    }

    private static void set(Object config, String key, String value) throws Exception {
        String setter = "set" + Character.toUpperCase(key.charAt(0)) + key.substring(1);
        for (Method method : config.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterTypes()[0] == String.class) {
                method.invoke(config, value);
                return;
            }
        }
        for (Method method : config.getClass().getMethods()) {
            if (!method.getName().equals(setter) || method.getParameterCount() != 1) continue;
            Class<?> type = method.getParameterTypes()[0];
            if (type == Integer.class || type == int.class) method.invoke(config, Integer.valueOf(value));
            else if (type == Boolean.class || type == boolean.class) method.invoke(config, Boolean.valueOf(value));
            else continue;
            return;
        }
        throw new IllegalArgumentException(config.getClass() + " has no " + setter);
    }
}
