// One member of a group: BOOTSTRAP GROUP PATTERN STRATEGY. What it prints is in tests/group_kit/member.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, group, pattern, strategy := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeRegex(),
		kgo.ConsumeTopics(pattern),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMaxAge(500 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.SessionTimeout(3 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(told("assigned")),
		kgo.OnPartitionsRevoked(told("revoked")),
		kgo.OnPartitionsLost(told("revoked")),
	}
	switch strategy {
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "roundrobin":
		options = append(options, kgo.Balancers(kgo.RoundRobinBalancer()))
	case "cooperative":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case "consumer":
		options = append(options, kgo.ServerSideBalancer())
	default:
		panic(strategy)
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		consume(ctx, client)
	}
	client.CloseAllowingRebalance()
	fmt.Println(`{"event":"closed"}`)
}

func consume(ctx context.Context, client *kgo.Client) {
	fetches := client.PollFetches(ctx)
	defer client.AllowRebalance()
	fetches.EachRecord(func(record *kgo.Record) {
		partition := fmt.Sprintf("%s/%d", record.Topic, record.Partition)
		fmt.Printf(`{"event":"record","partition":%q,"offset":%d}`+"\n", partition, record.Offset)
	})
	// What was printed is committed even when the signal came meanwhile.
	if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "commit:", err)
	}
}

func told(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		names := []string{}
		for topic, partitions := range changed {
			for _, partition := range partitions {
				names = append(names, fmt.Sprintf("%s/%d", topic, partition))
			}
		}
		line, _ := json.Marshal(map[string]any{"event": event, "partitions": names})
		fmt.Println(string(line))
	}
}
