import java.io.ByteArrayInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;

/** For each line of a file, a certificate: its subject as Kafka sees it, in hexadecimal UTF-16. */
public class SubjectNames {
    public static void main(String[] arguments) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            byte[] encoded = Base64.getDecoder().decode(line);
            X509Certificate certificate =
                    (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(encoded));
            String name = certificate.getSubjectX500Principal().getName();
            StringBuilder hex = new StringBuilder("=");
            for (char letter : name.toCharArray()) hex.append(String.format("%04x", (int) letter));
            System.out.println(hex);
        }
    }
}
