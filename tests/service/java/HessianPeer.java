import com.alibaba.com.caucho.hessian.io.Hessian2Input;
import com.alibaba.com.caucho.hessian.io.Hessian2Output;
import com.alibaba.com.caucho.hessian.io.SerializerFactory;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.*;

/**
 * Reads values that Python wrote, says what they are and writes them back; then writes generated ones.
 * A line in: a value in base64. A line out: its description and the same value again, in base64.
 */
public class HessianPeer {
    public enum Color { RED, GREEN, BLUE }

    public static class Item implements Serializable {
        public int small;
        public long large;
        public double ratio;
        public boolean open;
        public String name;
        public Color color;
        public Date when;
        public BigDecimal price;
        public Item next;
        public List<Object> items;
        public Map<String, Object> extra;
    }

    private static final SerializerFactory FACTORY = new SerializerFactory();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Base64.Encoder encoder = Base64.getEncoder();
        for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
            Object value = read(Base64.getDecoder().decode(line));
            print(encoder, value);
        }
        Generator generator = new Generator(Long.parseLong(arguments[0]));
        for (int i = 0; i < Integer.parseInt(arguments[1]); i++) print(encoder, generator.value(4));
    }

    private static void print(Base64.Encoder encoder, Object value) throws Exception {
        String text = new Description().of(value);
        System.out.println(encoder.encodeToString(text.getBytes(StandardCharsets.UTF_16BE)) + " "
                + encoder.encodeToString(write(value)));
    }

    private static Object read(byte[] data) throws Exception {
        Hessian2Input input = new Hessian2Input(new ByteArrayInputStream(data));
        input.setSerializerFactory(FACTORY);
        return input.readObject();
    }

    private static byte[] write(Object value) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Hessian2Output output = new Hessian2Output(bytes);
        output.setSerializerFactory(FACTORY);
        output.writeObject(value);
        output.flush();
        return bytes.toByteArray();
    }

    /** A text that is equal for equal values, cycles included; Python writes the same. */
    static class Description {
        private final IdentityHashMap<Object, Integer> seen = new IdentityHashMap<>();

        String of(Object value) throws Exception {
            if (value == null) return "n";
            if (value instanceof Boolean) return "b:" + value;
            if (value instanceof Integer || value instanceof Short || value instanceof Byte) return "i:" + value;
            if (value instanceof Long) return "l:" + value;
            if (value instanceof Double || value instanceof Float)
                return "d:" + Long.toHexString(Double.doubleToLongBits(((Number) value).doubleValue()));
            if (value instanceof String) return "s:" + ((String) value).length() + ":" + value;
            if (value instanceof byte[]) return "y:" + HexFormat.of().formatHex((byte[]) value);
            if (value instanceof Date) return "t:" + ((Date) value).getTime();
            if (value instanceof BigDecimal) return "D:" + ((BigDecimal) value).toPlainString();
            if (value instanceof BigInteger) return "B:" + value;
            if (value instanceof UUID) return "u:" + value;
            if (value instanceof LocalDate) return "ld:" + ((LocalDate) value).toEpochDay();
            if (value instanceof LocalTime) return "lt:" + ((LocalTime) value).toNanoOfDay() / 1000;
            if (value instanceof LocalDateTime)
                return of(((LocalDateTime) value).toLocalDate()) + of(((LocalDateTime) value).toLocalTime());
            if (value instanceof Duration)
                return "du:" + ((Duration) value).getSeconds() + "." + ((Duration) value).getNano() / 1000;
            if (value instanceof Color) return "e:" + ((Color) value).name();
            Integer known = seen.get(value);
            if (known != null) return "@" + known;
            seen.put(value, seen.size());
            if (value.getClass().isArray()) {
                StringBuilder text = new StringBuilder("[");
                for (int i = 0; i < Array.getLength(value); i++) text.append(of(Array.get(value, i))).append(",");
                return text.append("]").toString();
            }
            if (value instanceof Collection) {
                StringBuilder text = new StringBuilder("[");
                for (Object item : (Collection<?>) value) text.append(of(item)).append(",");
                return text.append("]").toString();
            }
            if (value instanceof Map) {
                TreeMap<String, Object> entries = new TreeMap<>();
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) entries.put(of(entry.getKey()), entry.getValue());
                StringBuilder text = new StringBuilder("{");
                for (Map.Entry<String, Object> entry : entries.entrySet())
                    text.append(entry.getKey()).append("=").append(of(entry.getValue())).append(",");
                return text.append("}").toString();
            }
            StringBuilder text = new StringBuilder("o:" + value.getClass().getName() + "{");
            for (Field field : Item.class.getFields()) text.append(of(field.get(value))).append(",");
            return text.append("}").toString();
        }
    }

    /** Values of all kinds, the same for the same seed. */
    static class Generator {
        private final Random random;
        private final List<Item> made = new ArrayList<>();

        Generator(long seed) {
            random = new Random(seed);
        }

        Object value(int depth) {
            switch (random.nextInt(depth > 0 ? 24 : 14)) {
                case 0: return null;
                case 1: return random.nextBoolean();
                case 2: return (int) number();
                case 3: return number();
                case 4: return random.nextBoolean() ? (double) (int) number() : random.nextGaussian();
                case 5: return text();
                case 6: byte[] bytes = new byte[random.nextInt(100) == 0 ? 70000 : random.nextInt(2000)]; random.nextBytes(bytes); return bytes;
                case 7: return new Date((random.nextInt() / 4) * (random.nextBoolean() ? 60000L : 1009L));
                case 8: return new BigDecimal(BigInteger.valueOf(number()), random.nextInt(10));
                case 9: return new BigInteger(random.nextInt(200), random);
                case 10: return Color.values()[random.nextInt(3)];
                case 11: return LocalDate.ofEpochDay(random.nextInt(40000));
                case 12: return LocalDateTime.of(2020, 1 + random.nextInt(12), 3, 4, random.nextInt(60), 6, random.nextInt(1000) * 1000);
                case 13: return random.nextInt(1000) / 1000.0;
                case 14: return fill(new ArrayList<>(), depth);
                case 15: return fill(new LinkedList<>(), depth);
                case 16: return fill(new ArrayList<>(), depth).toArray();
                case 17: return random.ints(random.nextInt(12)).toArray();
                case 18: return new String[] {text(), null, text()};
                case 19: case 20: Map<String, Object> map = random.nextBoolean() ? new HashMap<>() : new TreeMap<>();
                    for (int i = random.nextInt(5); i > 0; i--) map.put(text(), value(depth - 1));
                    return map;
                case 21: return new HashSet<>(Arrays.asList(number(), text(), (int) number()));
                default: return item(depth);
            }
        }

        private List<Object> fill(List<Object> list, int depth) {
            for (int i = random.nextInt(12); i > 0; i--) list.add(value(depth - 1));
            return list;
        }

        private Item item(int depth) {
            if (!made.isEmpty() && random.nextInt(4) == 0) return made.get(random.nextInt(made.size()));
            if (made.size() > 20) made.clear();
            Item item = new Item();
            made.add(item);
            item.small = (int) number();
            item.large = number();
            item.ratio = random.nextGaussian();
            item.open = random.nextBoolean();
            item.name = random.nextBoolean() ? text() : null;
            item.color = random.nextBoolean() ? Color.GREEN : null;
            item.when = new Date(number() % 100000000000L);
            item.price = new BigDecimal("12.50");
            if (depth > 0) {
                item.next = random.nextBoolean() ? item(depth - 1) : null;
                item.items = fill(new ArrayList<>(), depth - 2);
                item.extra = new HashMap<>();
                item.extra.put("self", item);
            }
            return item;
        }

        private long number() {
            return random.nextLong() >> random.nextInt(64);
        }

        private String text() {
            int length = random.nextInt(50) == 0 ? 40000 : random.nextInt(60);
            StringBuilder text = new StringBuilder();
            int highest = new int[] {0x80, 0x800, 0xd800, 0x11000}[random.nextInt(4)];
            while (text.length() < length) {
                int code = random.nextInt(highest);
                if (code < 0xd800 || code > 0xdfff) text.appendCodePoint(code);
            }
            return text.toString();
        }
    }
}
