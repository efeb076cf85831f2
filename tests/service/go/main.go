// Calls the sample service through dubbo-go, finding it by the registry; ends with 0 if all holds.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"time"

	"dubbo.apache.org/dubbo-go/v3"
	"dubbo.apache.org/dubbo-go/v3/client"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	// Instead of dubbo-go's `imports`, which brings every registry there is and takes minutes to build.
	_ "dubbo.apache.org/dubbo-go/v3/cluster/cluster/failover"
	_ "dubbo.apache.org/dubbo-go/v3/cluster/loadbalance/random"
	_ "dubbo.apache.org/dubbo-go/v3/config_center/configurator"
	_ "dubbo.apache.org/dubbo-go/v3/filter/generic"
	_ "dubbo.apache.org/dubbo-go/v3/filter/graceful_shutdown"
	"dubbo.apache.org/dubbo-go/v3/logger"
	_ "dubbo.apache.org/dubbo-go/v3/logger/core/zap"
	_ "dubbo.apache.org/dubbo-go/v3/metadata/mapping/metadata"
	_ "dubbo.apache.org/dubbo-go/v3/metadata/report/zookeeper"
	_ "dubbo.apache.org/dubbo-go/v3/protocol/dubbo"
	_ "dubbo.apache.org/dubbo-go/v3/proxy/proxy_factory"
	"dubbo.apache.org/dubbo-go/v3/registry"
	_ "dubbo.apache.org/dubbo-go/v3/registry/directory"
	_ "dubbo.apache.org/dubbo-go/v3/registry/protocol"
	_ "dubbo.apache.org/dubbo-go/v3/registry/zookeeper"
	hessian "github.com/apache/dubbo-go-hessian2"
	big "github.com/dubbogo/gost/math/big"

	// Written by `floodmark service stub` when this is built.
	"floodmark.dev/tests/service/stub"
)

var ctx = context.Background()

func same(expected, found interface{}) {
	if !reflect.DeepEqual(expected, found) {
		fail(fmt.Sprintf("expected %v (%T), found %v (%T)", expected, expected, found, found))
	}
}

func main() {
	instance, err := dubbo.NewInstance(
		dubbo.WithName("go-consumer"),
		dubbo.WithLogger(logger.WithLevel("error")),
		dubbo.WithRegistry(registry.WithZookeeper(), registry.WithAddress(os.Args[1]), registry.WithGroup(os.Args[2]), registry.WithRegisterInterface()),
	)
	check(err)
	consumer, err := instance.NewClient(client.WithClientProtocolDubbo(), client.WithClientSerialization(constant.Hessian2Serialization), client.WithClientRequestTimeout(10*time.Second))
	check(err)
	sample := new(stub.Sample)
	connection, err := consumer.DialWithService(sample.Reference(), sample)
	check(err)
	// dubbo-go asks the registry in the background.
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err = sample.Hello(ctx, "anybody"); err == nil || time.Since(began) > 10*time.Second {
			break
		}
	}
	if len(os.Args) > 3 {
		idle(sample, os.Args[3])
	} else {
		values(sample)
		objects(sample)
		failures(sample)
		withoutStub(connection)
	}
	fmt.Println("all holds")
	os.Exit(0)
}

func idle(sample *stub.Sample, milliseconds string) {
	same("hello before", must(sample.Hello(ctx, "before")))
	pause, err := time.ParseDuration(milliseconds + "ms")
	check(err)
	time.Sleep(pause)
	same("hello after", must(sample.Hello(ctx, "after")))
}

func values(sample *stub.Sample) {
	same("hello world", must(sample.Hello(ctx, "world")))
	same("hello go", must(sample.HelloAsync(ctx, "go")))
	large := strings.Repeat("flood 😀 mark é ", 8000)
	same(large, must(sample.Text(ctx, large)))
	same("", must(sample.Text(ctx, "")))
	same(int64(math.MaxInt64), must(sample.Widths(ctx, 0, 0, 0, math.MaxInt64)))
	same(int64(4), must(sample.Widths(ctx, -128, 32767, math.MinInt32, 2147451013)))
	same(int8(-128), must(sample.PreviousByte(ctx, -127)))
	same(int16(8), must(sample.NextShort(ctx, 7)))
	same(int32(math.MaxInt32), must(sample.NextInt(ctx, math.MaxInt32-1)))
	same(2.0, must(sample.Half(ctx, 2.5, 1.5)))
	same(float32(0.75), must(sample.Quarter(ctx, 3)))
	same(true, must(sample.Negate(ctx, false)))
	same([]byte{3, 2, 1}, must(sample.ReversedBytes(ctx, []byte{1, 2, 3})))
	// dubbo-go reads lists and maps of no declared type, as Java writes them, only into these.
	same([]interface{}{int64(1), int64(2), int64(3)}, must(sample.Sorted(ctx, []int64{3, 1, 2})))
	same([]string{"to", "be", "or", "not"}, must(sample.Words(ctx, "to be or not")))
	same(3.75, must(sample.Summed(ctx, []int32{1, 2}, []float64{0.5, 0.25})))
	merged := must(sample.Merged(ctx, map[string]float64{"a": 1.5}, map[string]float64{"b": 2.5}))
	same(map[interface{}]interface{}{"a": 1.5, "b": 2.5}, merged)
	moment := time.UnixMilli(1_700_000_000_123)
	same(moment.UnixMilli(), must(sample.SameMoment(ctx, moment)).UnixMilli())
	price := new(big.Decimal)
	check(price.FromString("4.25"))
	same("8.50", must(sample.Twice(ctx, price)).String())
	number := new(big.Integer)
	check(number.FromString("1000000000000000000000"))
	same("1000000000000000000000000000000000000000000", must(sample.Square(ctx, number)).String())
	same("PAID", must(sample.NextStatus(ctx, stub.StatusOPEN)).String())
	same("", must(sample.Nothing(ctx, "whatever")))
	same(nil, must(sample.Done(ctx)))
}

func objects(sample *stub.Sample) {
	order := must(sample.Find(ctx, 7_000_000_000))
	same("Žofie 😀", order.Customer.Name)
	same([]string{"a", "b"}, order.Customer.Tags)
	same("4.50", order.Lines[0].UnitPrice.String())
	same("PAID", order.Status.String())
	same(int64(1_794_918_600_250), order.OrderedAt.UnixMilli())
	same(map[string]string{"door": "green"}, order.Remarks)
	same([]int32{1, 2, 3}, order.Pages)
	back := must(sample.Same(ctx, order))
	same(order.Lines[1].Product, back.Lines[1].Product)
	same(order.IsGift, back.IsGift)
	ring := must(sample.Ring(ctx, 3))
	// dubbo-go copies the first object into its reply.
	if ring.Next.Next.Next.Next != ring.Next || ring.Others[1] != ring.Next.Next {
		fail("the ring is broken")
	}
}

func failures(sample *stub.Sample) {
	_, err := sample.Find(ctx, 5)
	var missing *stub.NoSuchOrder
	if !errors.As(err, &missing) {
		fail("no typed error as it should be: ", err)
	}
	same("there is no order 5", missing.Error())
	same(int64(5), missing.OrderId)
	same("find", missing.StackTrace[0].MethodName)
	_, err = sample.Fails(ctx, "value")
	if err == nil || !strings.Contains(err.Error(), "not a good value") {
		fail("no error as it should be: ", err)
	}
	_, err = sample.Unwritable(ctx)
	if err == nil || !strings.Contains(err.Error(), "Failed to send response of unwritable") {
		fail("no error as it should be: ", err)
	}
	same("hello again", must(sample.Hello(ctx, "again")))
}

func withoutStub(connection *client.Connection) {
	var text string
	check(connection.CallUnary(ctx, []interface{}{"ping"}, &text, "$echo"))
	same("ping", text)
	arguments := []interface{}{"hello", []string{"java.lang.String"}, []hessian.Object{"generic"}}
	check(connection.CallUnary(ctx, arguments, &text, "$invoke"))
	same("hello generic", text)
	err := connection.CallUnary(ctx, []interface{}{"x"}, &text, "unheardOf")
	if err == nil || !strings.Contains(err.Error(), "Service not found") {
		fail("no error as it should be: ", err)
	}
	check(connection.CallUnary(ctx, []interface{}{"again"}, &text, "hello"))
	same("hello again", text)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(reason ...interface{}) {
	fmt.Println(reason...)
	os.Exit(1)
}
