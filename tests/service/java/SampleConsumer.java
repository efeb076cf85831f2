import dev.floodmark.sample.*;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.service.EchoService;
import org.apache.dubbo.rpc.service.GenericException;
import org.apache.dubbo.rpc.service.GenericService;

/** Calls everything that the sample service has, finding it by the registry; ends with 0 if all holds. */
public class SampleConsumer {
    private static RegistryConfig registry;
    private static ApplicationConfig application;

    public static void main(String[] arguments) throws Exception {
        application = new ApplicationConfig("sample-consumer");
        application.setQosEnable(false);
        registry = new RegistryConfig(arguments[0]);
        registry.setUseAsConfigCenter(false);
        registry.setUseAsMetadataCenter(false);
        Sample sample = (Sample) reference(Sample.class.getName(), null).get();
        if (arguments[1].equals("idle")) {
            same("hello before", sample.hello("before"));
            Thread.sleep(Long.parseLong(arguments[2]));
            same("hello after", sample.hello("after"));
            Runtime.getRuntime().halt(0);
        }
        values(sample);
        objects(sample);
        failures(sample);
        generic();
        unknownInterface(arguments[1]);
        same("hello again", sample.hello("again"));
        async(sample);
        withoutToken(arguments[1]);
        System.out.println("all holds");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static ReferenceConfig<Object> reference(String interfaceName, String generic) {
        ReferenceConfig<Object> reference = new ReferenceConfig<>();
        reference.setApplication(application);
        reference.setRegistry(registry);
        reference.setInterface(interfaceName);
        reference.setTimeout(10000);
        reference.setVersion("1.0");
        reference.setGroup("java");
        reference.setRetries(0);
        reference.setCheck(true);
        if (generic != null) reference.setGeneric(generic);
        return reference;
    }

    private static void withoutToken(String url) {
        ReferenceConfig<Object> reference = reference(Sample.class.getName(), null);
        reference.setUrl(url);
        reference.setVersion("1.0");
        reference.setGroup("java");
        try {
            ((Sample) reference.get()).hello("stranger");
            throw new AssertionError("nothing was thrown");
        } catch (RpcException error) {
            if (!error.getMessage().contains("Invalid token")) throw error;
        }
    }

    private static void same(Object expected, Object found) {
        if (!Objects.deepEquals(expected, found)) throw new AssertionError("expected " + expected + ", found " + found);
    }

    private static void values(Sample sample) {
        same("hello world", sample.hello("world"));
        same("hello world", sample.helloAsync("world"));
        same("hello world from floodmark-service", sample.helloInThread("world"));
        StringBuilder large = new StringBuilder("é日😀");
        while (large.length() < 100_000) large.append("flood 😀 mark ");
        same(large.toString(), sample.text(large.toString()));
        same("", sample.text(""));
        same(4L, sample.widths((byte) -128, (short) 32767, Integer.MIN_VALUE, 2147451013L));
        same(Long.MAX_VALUE, sample.widths((byte) 0, (short) 0, 0, Long.MAX_VALUE));
        same(Integer.MAX_VALUE, sample.nextInt(Integer.MAX_VALUE - 1));
        same((short) 8, sample.nextShort((short) 7));
        same((byte) -128, sample.previousByte((byte) -127));
        same(0.75f, sample.quarter(3f));
        same(1.75, sample.half(2.0, 1.5f));
        same(0.0755, sample.half(0.151, 0f));
        same(false, sample.negate(true));
        same('ß', sample.letter('ß'));
        same(new BigInteger("1" + "0".repeat(60)), sample.square(new BigInteger("1" + "0".repeat(30))));
        same(new BigDecimal("25.00"), sample.twice(new BigDecimal("12.50")));
        same(LocalDate.of(2024, 2, 29), sample.dayAfter(LocalDate.of(2024, 2, 28)));
        same(new Date(1234567890123L), sample.sameMoment(new Date(1234567890123L)));
        same(Arrays.asList(1L, 2L, 3L), sample.sorted(new ArrayList<>(Arrays.asList(3L, 1L, 2L))));
        Map<String, Double> first = new HashMap<>(), second = new TreeMap<>();
        first.put("a", 1.5);
        second.put("b", 0.25);
        Map<String, Double> both = new HashMap<>(first);
        both.putAll(second);
        same(both, sample.merged(first, second));
        same(new HashSet<>(Arrays.asList("a", "b")), sample.unique(Arrays.asList("a", "b", "a")));
        same(7.5, sample.summed(new int[] {1, 2, 3}, new double[] {1.5}));
        same(new String[] {"a", "b", "c"}, sample.words("a b c"));
        same(new byte[] {3, 2, 1}, sample.reversedBytes(new byte[] {1, 2, 3}));
        same(null, sample.nothing(null));
        sample.done();
    }

    private static void objects(Sample sample) throws Exception {
        Order order = sample.find(7_000_000_000L);
        same("Žofie 😀", order.getCustomer().getName());
        same(LocalDate.of(1990, 2, 28), order.getCustomer().getBirthday());
        same(Arrays.asList("a", "b"), order.getCustomer().getTags());
        same(2, order.getLines().size());
        same(new BigDecimal("4.50"), order.getLines().get(0).getUnitPrice());
        same(3, order.getLines().get(0).getPieces());
        same(Status.PAID, order.getStatus());
        same(1794918600250L, order.getOrderedAt().getTime());
        same(1.5, order.getWeight());
        same(0.1, order.getRebate());
        same(true, order.isIsGift());
        same("green", order.getRemarks().get("door"));
        same(new int[] {1, 2, 3}, order.getPages());
        Order again = sample.same(order);
        same(order.getId(), again.getId());
        same(order.getCustomer().getName(), again.getCustomer().getName());
        same(order.getLines().get(1).getUnitPrice(), again.getLines().get(1).getUnitPrice());
        same(order.getOrderedAt(), again.getOrderedAt());
        same(order.getPages(), again.getPages());
        same(Status.SENT, sample.nextStatus(Status.PAID));
        Node ring = sample.ring(3);
        if (ring.getNext().getNext().getNext() != ring || ring.getOthers().get(0) != ring)
            throw new AssertionError("the ring is broken");
    }

    private static void failures(Sample sample) throws Exception {
        try {
            sample.find(5);
            throw new AssertionError("nothing was thrown");
        } catch (NoSuchOrder error) {
            same("there is no order 5", error.getMessage());
            same(5L, error.getOrderId());
            same("find", error.getStackTrace()[0].getMethodName());
        }
        try {
            sample.fails("value");
            throw new AssertionError("nothing was thrown");
        } catch (IllegalArgumentException error) {
            same("not a good value", error.getMessage());
        }
        try {
            sample.fails("division");
            throw new AssertionError("nothing was thrown");
        } catch (RuntimeException error) {
            same("ZeroDivisionError: by zero", error.getMessage());
        }
        try {
            sample.fails("other");
            throw new AssertionError("nothing was thrown");
        } catch (RuntimeException error) {
            same("RuntimeError: it broke", error.getMessage());
        }
        try {
            sample.unwritable();
            throw new AssertionError("nothing was thrown");
        } catch (RpcException error) {
            if (!error.getMessage().contains("Failed to send response of unwritable")) throw error;
        }
        same("hello again", sample.hello("again"));
        same("ok", ((EchoService) sample).$echo("ok"));
        RpcContext.getContext().setAttachment("trace", "t-1");
        same("t-1", sample.attachment("trace"));
    }

    private static void generic() {
        GenericService service = (GenericService) reference(Sample.class.getName(), "true").get();
        same("hello generic", service.$invoke("hello", new String[] {"java.lang.String"}, new Object[] {"generic"}));
        Map<?, ?> order = (Map<?, ?>) service.$invoke("find", new String[] {"long"}, new Object[] {7_000_000_000L});
        same("PAID", order.get("status"));
        same("Žofie 😀", ((Map<?, ?>) order.get("customer")).get("name"));
        Map<?, ?> again = (Map<?, ?>) service.$invoke("same", new String[] {"dev.floodmark.sample.Order"}, new Object[] {order});
        same(order.get("orderedAt"), again.get("orderedAt"));
        try {
            service.$invoke("unheardOf", new String[] {"int"}, new Object[] {1});
            throw new AssertionError("nothing was thrown");
        } catch (RpcException error) {
            if (!error.getMessage().contains("Service not found")) throw error;
        }
        Map<?, ?> ring = (Map<?, ?>) service.$invoke("ring", new String[] {"int"}, new Object[] {2});
        if (((Map<?, ?>) ring.get("next")).get("next") != ring) throw new AssertionError("the ring is broken");
        try {
            service.$invoke("find", new String[] {"long"}, new Object[] {5L});
            throw new AssertionError("nothing was thrown");
        } catch (GenericException error) {
            same("dev.floodmark.sample.NoSuchOrder", error.getExceptionClass());
            same("there is no order 5", error.getExceptionMessage());
        }
        try {
            service.$invoke("hello", new String[] {}, new Object[] {});
            throw new AssertionError("nothing was thrown");
        } catch (RpcException error) {
            if (!error.getMessage().contains("hello takes 1 arguments, got 0")) throw error;
        }
        try {
            service.$invoke("hello", new String[] {"java.util.List"}, new Object[] {new ArrayList<>()});
            throw new AssertionError("nothing was thrown");
        } catch (RpcException error) {
            if (!error.getMessage().contains("argument 0 of hello")) throw error;
        }
    }

    private static void unknownInterface(String url) {
        String name = "dev.floodmark.sample.Unknown";
        ReferenceConfig<Object> reference = reference(name, "true");
        reference.setUrl(url.replace(Sample.class.getName(), name));
        try {
            ((GenericService) reference.get()).$invoke("hello", new String[] {"java.lang.String"}, new Object[] {"x"});
            throw new AssertionError("nothing was thrown");
        } catch (RpcException error) {
            if (!error.getMessage().contains("ot found")) throw error;
        }
    }

    private static void async(Sample sample) throws Exception {
        CompletableFuture<String> slept = RpcContext.getContext().asyncCall(() -> sample.pause(100));
        same("slept", slept.get(5, TimeUnit.SECONDS));
        RpcContext.getContext().asyncCall(() -> sample.recordOneWay("from java"));
    }
}
