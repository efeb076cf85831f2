import dev.floodmark.bench.Bench;
import dev.floodmark.bench.Row;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;

/** The same service in Java: rows are objects, encoded at each call, as Java providers do. */
public class BenchProvider implements Bench {
    private final List<Row> rows = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        ApplicationConfig application = new ApplicationConfig("bench-provider");
        application.setQosEnable(false);
        ProtocolConfig protocol = new ProtocolConfig("dubbo", Integer.parseInt(arguments[0]));
        ServiceConfig<Bench> service = new ServiceConfig<>();
        service.setApplication(application);
        service.setRegistry(new RegistryConfig(RegistryConfig.NO_AVAILABLE));
        service.setProtocol(protocol);
        service.setInterface(Bench.class);
        service.setRef(new BenchProvider());
        service.export();
        System.out.println("ready");
        Thread.sleep(Long.MAX_VALUE);
    }

    BenchProvider() {
        for (int i = 0; i < 100; i++) {
            Row row = new Row();
            row.setId(1_000_000L + i);
            row.setCustomer("customer " + i);
            row.setCity("city of " + i);
            row.setStreet("street " + i);
            row.setZip("zip" + i);
            row.setCountry("CZ");
            row.setStatus("PAID");
            row.setQuantity(i);
            row.setPrice(i * 1.25);
            row.setTax(0.21);
            row.setTotal(i * 1.5125);
            row.setOrderedAt(new Date(1_700_000_000_000L + i));
            row.setGift(i % 2 == 0);
            row.setRemark("a remark about order number " + i);
            rows.add(row);
        }
    }

    @Override
    public String hello(String name) {
        return "hello " + name;
    }

    @Override
    public Row get(String key) {
        return rows.get(Integer.parseInt(key));
    }

    @Override
    public List<Row> scan(String after, int limit) {
        return rows;
    }
}
