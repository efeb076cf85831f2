import java.lang.reflect.Field;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/** Prints every setting that Apache Kafka knows: kind, name, type, default, bounds, internal. */
public class SettingsOf {
    public static void main(String[] arguments) throws Exception {
        print("broker", definition("org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF"));
        print("topic", definition("org.apache.kafka.storage.internals.log.LogConfig", "CONFIG"));
        print("group", definition("org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF"));
    }

    private static ConfigDef definition(String className, String name) throws Exception {
        Field field = Class.forName(className).getDeclaredField(name);
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static void print(String kind, ConfigDef definition) {
        for (Map.Entry<String, ConfigDef.ConfigKey> entry : new TreeMap<>(definition.configKeys()).entrySet()) {
            ConfigDef.ConfigKey key = entry.getValue();
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            String bounds = key.validator == null ? "" : key.validator.toString();
            System.out.println(String.join("\t", kind, key.name, key.type.name(), String.valueOf(value), bounds,
                String.valueOf(key.internalConfig)));
        }
    }
}
