// franz-go over TLS and SASL: for each JSON file in the arguments create a topic, produce in a
// transaction, consume it in a group and delete it. Prints a line per file, "ok" or the error.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const recordCount = 100

type settings struct {
	Bootstrap   string
	CA          string // A file; empty for a connection without TLS.
	Certificate string // A file with key and certificate.
	Mechanism   string
	User        string
	Password    string
	Token       string
}

func main() {
	for _, file := range os.Args[1:] {
		fmt.Println(outcome(file))
	}
}

func outcome(file string) string {
	options, err := optionsOf(file)
	if err == nil {
		err = run(options)
	}
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "ok"
}

func optionsOf(file string) ([]kgo.Opt, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var s settings
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	options := []kgo.Opt{kgo.SeedBrokers(s.Bootstrap), kgo.RequestRetries(1)}
	if s.CA != "" {
		config, err := tlsConfig(s)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if s.Mechanism != "" {
		options = append(options, kgo.SASL(mechanism(s)))
	}
	return options, nil
}

func tlsConfig(s settings) (*tls.Config, error) {
	ca, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func mechanism(s settings) sasl.Mechanism {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: s.Token}.AsMechanism()
	}
}

func run(options []kgo.Opt) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	admin := kadm.NewClient(client)
	topic := fmt.Sprintf("secure-go-%d", time.Now().UnixNano())
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		return err
	}
	if err := produce(ctx, options, topic); err != nil {
		return err
	}
	if err := consume(ctx, options, topic); err != nil {
		return err
	}
	_, err = admin.DeleteTopic(ctx, topic)
	return err
}

func produce(ctx context.Context, options []kgo.Opt, topic string) error {
	client, err := kgo.NewClient(append(options, kgo.TransactionalID(topic))...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	var records []*kgo.Record
	for number := 0; number < recordCount; number++ {
		value := []byte(fmt.Sprintf("value-%d", number))
		records = append(records, &kgo.Record{Topic: topic, Value: value})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}

func consume(ctx context.Context, options []kgo.Opt, topic string) error {
	client, err := kgo.NewClient(append(options,
		kgo.ConsumerGroup(topic),
		kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for count := 0; count < recordCount; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		count += fetches.NumRecords()
	}
	return client.CommitUncommittedOffsets(ctx)
}
