import dev.floodmark.sample.Sample;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;

/** Calls hello in four threads until stdin ends; prints how many calls there were, and each failure. */
public class SampleLoad {
    public static void main(String[] arguments) throws Exception {
        ApplicationConfig application = new ApplicationConfig("sample-load");
        application.setQosEnable(false);
        RegistryConfig registry = new RegistryConfig(arguments[0]);
        registry.setUseAsConfigCenter(false);
        registry.setUseAsMetadataCenter(false);
        ReferenceConfig<Sample> reference = new ReferenceConfig<>();
        reference.setApplication(application);
        reference.setRegistry(registry);
        reference.setInterface(Sample.class);
        reference.setGroup("load");
        reference.setTimeout(3000);
        reference.setLoadbalance("roundrobin");
        Sample sample = reference.get();
        AtomicBoolean isOver = new AtomicBoolean();
        AtomicLong calls = new AtomicLong();
        ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                while (!isOver.get()) {
                    try {
                        if (!sample.hello("java").endsWith(" java")) failures.add("a wrong answer");
                        calls.incrementAndGet();
                        Thread.sleep(1);
                    } catch (Throwable problem) {
                        failures.add("after " + calls.get() + " calls: " + problem.toString().split("\n")[0]);
                    }
                }
            });
            threads[i].start();
        }
        System.out.println("running");
        while (System.in.read() >= 0) {
            // until it is closed
        }
        isOver.set(true);
        for (Thread thread : threads) thread.join();
        System.out.println("calls " + calls.get());
        failures.stream().limit(5).forEach(text -> System.out.println("failed " + text));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
