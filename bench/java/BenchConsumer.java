import com.sun.management.OperatingSystemMXBean;
import dev.floodmark.bench.Bench;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;

/**
 * Calls two providers in turn, with the same threads: seconds, rounds, then name=port pairs. Prints a
 * line per measurement: case, name, calls, seconds, and the CPU seconds of this process.
 */
public class BenchConsumer {
    private static final int THREADS = 16;

    interface Work {
        void run(Bench bench);
    }

    public static void main(String[] arguments) throws Exception {
        double seconds = Double.parseDouble(arguments[0]);
        int rounds = Integer.parseInt(arguments[1]);
        ApplicationConfig application = new ApplicationConfig("bench-consumer");
        application.setQosEnable(false);
        List<String> names = new ArrayList<>();
        List<Bench> providers = new ArrayList<>();
        for (int i = 2; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=");
            ReferenceConfig<Bench> reference = new ReferenceConfig<>();
            reference.setApplication(application);
            reference.setRegistry(new RegistryConfig(RegistryConfig.NO_AVAILABLE));
            reference.setInterface(Bench.class);
            reference.setTimeout(20000);
            reference.setRetries(0);
            reference.setUrl("dubbo://127.0.0.1:" + pair[1] + "/" + Bench.class.getName());
            names.add(pair[0]);
            providers.add(reference.get());
        }
        String[] cases = {"hello", "get", "scan"};
        Work[] works = {
            bench -> bench.hello("world"), bench -> bench.get("42"),
            bench -> { if (bench.scan(null, 100).size() != 100) throw new AssertionError("100 rows"); }
        };
        for (int round = -1; round < rounds; round++) {
            for (int i = 0; i < works.length; i++) {
                for (int j = 0; j < providers.size(); j++) {
                    long cpu = cpuNanos();
                    double[] outcome = measure(providers.get(j), works[i], seconds);
                    System.out.printf("%s %s %.0f %.3f %.3f%n", round < 0 ? "warmup" : cases[i],
                            names.get(j), outcome[0], outcome[1], (cpuNanos() - cpu) / 1e9);
                    System.out.flush();
                }
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** Calls and seconds. */
    private static double[] measure(Bench bench, Work work, double seconds) throws Exception {
        LongAdder calls = new LongAdder();
        long start = System.nanoTime();
        long end = start + (long) (seconds * 1e9);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            Thread thread = new Thread(() -> {
                while (System.nanoTime() < end) {
                    work.run(bench);
                    calls.increment();
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) thread.join();
        return new double[] {calls.sum(), (System.nanoTime() - start) / 1e9};
    }
}
