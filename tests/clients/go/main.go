// The client scenario of tests/kit/scenario.py with franz-go: BOOTSTRAP TOPIC BASE_TIMESTAMP_MS.
// Prints a line per step passed; the first difference ends it with a message and exit code 1.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	recordsPerRun = 20
	fromOffset    = 57
	fromTimeIndex = 142
)

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
	kgo.Lz4Compression(), kgo.ZstdCompression(),
}

var recordCount = 2 * len(codecs) * recordsPerRun

type scenario struct {
	bootstrap string
	topic     string
	baseMs    int64
	admin     *kadm.Client
}

func main() {
	baseMs, err := strconv.ParseInt(os.Args[3], 10, 64)
	must(err)
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	must(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	s := scenario{os.Args[1], os.Args[2], baseMs, kadm.NewClient(client)}
	s.create(ctx)
	s.produceAll(ctx)
	s.consumeAll(ctx)
	s.alterAndDescribe(ctx)
	s.delete(ctx)
}

func (s scenario) create(ctx context.Context) {
	retention := "86400000"
	configs := map[string]*string{"retention.ms": &retention}
	created, err := s.admin.CreateTopic(ctx, 2, 1, configs, s.topic)
	must(err)
	must(created.Err)
	same(created.NumPartitions, int32(2), "partitions of the answer")
	passed("create")
}

func (s scenario) produceAll(ctx context.Context) {
	next := 0
	for _, idempotent := range []bool{false, true} {
		for _, codec := range codecs {
			s.produce(ctx, codec, idempotent, next)
			next += recordsPerRun
		}
	}
	passed("produce")
}

func (s scenario) produce(ctx context.Context, codec kgo.CompressionCodec, idempotent bool, first int) {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.bootstrap),
		kgo.ProducerBatchCompression(codec),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(50 * time.Millisecond),
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	}
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	var records []*kgo.Record
	for index := first; index < first+recordsPerRun; index++ {
		records = append(records, s.record(index))
	}
	must(client.ProduceSync(ctx, records...).FirstErr())
	for at, record := range records {
		same(record.Offset, int64(first+at), "offset of a sent record")
	}
}

func (s scenario) record(index int) *kgo.Record {
	return &kgo.Record{
		Topic: s.topic, Partition: 0, Key: key(index), Value: value(index),
		Timestamp: time.UnixMilli(s.baseMs + int64(index)*1000),
		Headers: []kgo.RecordHeader{
			{Key: "index", Value: []byte(strconv.Itoa(index))}, {Key: "empty", Value: []byte{}},
		},
	}
}

func (s scenario) consumeAll(ctx context.Context) {
	s.consume(ctx, kgo.NewOffset().AtStart(), 0)
	passed("consume from the start")
	s.consume(ctx, kgo.NewOffset().At(fromOffset), fromOffset)
	passed("consume from an offset")
	timeMs := s.baseMs + fromTimeIndex*1000 - 1
	s.consume(ctx, kgo.NewOffset().AfterMilli(timeMs), fromTimeIndex)
	listed, err := s.admin.ListOffsetsAfterMilli(ctx, timeMs, s.topic)
	must(err)
	found, _ := listed.Lookup(s.topic, 0)
	must(found.Err)
	same(found.Offset, int64(fromTimeIndex), "offset for a time")
	passed("consume from a time")
	ends, err := s.admin.ListEndOffsets(ctx, s.topic)
	must(err)
	end, _ := ends.Lookup(s.topic, 0)
	same(end.Offset, int64(recordCount), "end offset")
}

func (s scenario) consume(ctx context.Context, from kgo.Offset, first int) {
	partitions := map[string]map[int32]kgo.Offset{s.topic: {0: from}}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap), kgo.ConsumePartitions(partitions))
	must(err)
	defer client.Close()
	for index := first; index < recordCount; {
		fetches := client.PollFetches(ctx)
		must(fetches.Err())
		for _, record := range fetches.Records() {
			s.check(record, index)
			index++
		}
	}
}

func (s scenario) check(record *kgo.Record, index int) {
	same(record.Offset, int64(index), "offset")
	sameBytes(record.Key, key(index), "key")
	sameBytes(record.Value, value(index), "value")
	same(record.Timestamp.UnixMilli(), s.baseMs+int64(index)*1000, "timestamp")
	same(len(record.Headers), 2, "headers")
	same(record.Headers[0].Key, "index", "first header")
	sameBytes(record.Headers[0].Value, []byte(strconv.Itoa(index)), "first header")
	same(record.Headers[1].Key, "empty", "second header")
	sameBytes(record.Headers[1].Value, []byte{}, "second header")
}

func (s scenario) alterAndDescribe(ctx context.Context) {
	retention := "172800000"
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}
	altered, err := s.admin.AlterTopicConfigs(ctx, set, s.topic)
	must(err)
	must(altered[0].Err)
	until(ctx, func() bool { return s.describedRetention(ctx) == retention })
	grown, err := s.admin.UpdatePartitions(ctx, 4, s.topic)
	must(err)
	must(grown.Error())
	until(ctx, func() bool {
		topics, err := s.admin.ListTopics(ctx, s.topic)
		must(err)
		return len(topics[s.topic].Partitions) == 4
	})
	passed("alter and describe")
}

func (s scenario) describedRetention(ctx context.Context) string {
	described, err := s.admin.DescribeTopicConfigs(ctx, s.topic)
	must(err)
	must(described[0].Err)
	for _, config := range described[0].Configs {
		if config.Key == "retention.ms" {
			return config.MaybeValue()
		}
	}
	return ""
}

func (s scenario) delete(ctx context.Context) {
	deleted, err := s.admin.DeleteTopics(ctx, s.topic)
	must(err)
	must(deleted.Error())
	until(ctx, func() bool {
		topics, err := s.admin.ListTopics(ctx)
		must(err)
		return !topics.Has(s.topic)
	})
	passed("delete")
}

func key(index int) []byte {
	if index%10 == 9 {
		return nil
	}
	return []byte("key-" + strconv.Itoa(index))
}

func value(index int) []byte {
	if index%10 == 8 {
		return nil
	}
	made := make([]byte, 300+index)
	for at := range made {
		made[at] = byte(index*7 + at)
	}
	return made
}

func until(ctx context.Context, condition func() bool) {
	for !condition() {
		must(ctx.Err())
		time.Sleep(20 * time.Millisecond)
	}
}

func same[T comparable](actual, expected T, what string) {
	if actual != expected {
		fail(fmt.Sprintf("%s: expected %v, got %v", what, expected, actual))
	}
}

func sameBytes(actual, expected []byte, what string) {
	if !bytes.Equal(actual, expected) || (actual == nil) != (expected == nil) {
		fail(what + ": the bytes differ")
	}
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}

func passed(step string) { fmt.Println("passed: " + step) }
