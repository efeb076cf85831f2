// Calls the sample service through dubbo-go, finding it by the registry; ends with 0 if all holds.
package main

import (
	"context"
	"fmt"
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
)

type Customer struct {
	Name     string      `hessian:"name"`
	Birthday interface{} `hessian:"birthday"`
	Tags     []string    `hessian:"tags"`
}

func (*Customer) JavaClassName() string { return "dev.floodmark.sample.Customer" }

type Line struct {
	Product   string       `hessian:"product"`
	Pieces    int32        `hessian:"pieces"`
	UnitPrice *big.Decimal `hessian:"unitPrice"`
}

func (*Line) JavaClassName() string { return "dev.floodmark.sample.Line" }

type Order struct {
	Id        int64             `hessian:"id"`
	Customer  *Customer         `hessian:"customer"`
	Lines     []*Line           `hessian:"lines"`
	Status    Status            `hessian:"status"`
	OrderedAt time.Time         `hessian:"orderedAt"`
	Weight    float64           `hessian:"weight"`
	Rebate    float64           `hessian:"rebate"`
	IsGift    bool              `hessian:"isGift"`
	Remarks   map[string]string `hessian:"remarks"`
	Pages     []int32           `hessian:"pages"`
}

func (*Order) JavaClassName() string { return "dev.floodmark.sample.Order" }

type Status hessian.JavaEnum

var statuses = []string{"OPEN", "PAID", "SENT"}

func (Status) JavaClassName() string { return "dev.floodmark.sample.Status" }
func (s Status) String() string      { return statuses[s] }
func (Status) EnumValue(name string) hessian.JavaEnum {
	for i, known := range statuses {
		if known == name {
			return hessian.JavaEnum(i)
		}
	}
	return hessian.InvalidJavaEnum
}

type Node struct {
	Name   string  `hessian:"name"`
	Next   *Node   `hessian:"next"`
	Others []*Node `hessian:"others"`
}

func (*Node) JavaClassName() string { return "dev.floodmark.sample.Node" }

func same(expected, found interface{}) {
	if !reflect.DeepEqual(expected, found) {
		fmt.Printf("expected %v (%T), found %v (%T)\n", expected, expected, found, found)
		os.Exit(1)
	}
}

func main() {
	hessian.RegisterPOJO(&Customer{})
	hessian.RegisterPOJO(&Node{})
	hessian.RegisterPOJO(&Line{})
	hessian.RegisterPOJO(&Order{})
	for i := range statuses {
		hessian.RegisterJavaEnum(Status(i))
	}
	instance, err := dubbo.NewInstance(
		dubbo.WithName("go-consumer"),
		dubbo.WithLogger(logger.WithLevel("error")),
		dubbo.WithRegistry(registry.WithZookeeper(), registry.WithAddress(os.Args[1]), registry.WithRegisterInterface()),
	)
	check(err)
	consumer, err := instance.NewClient(client.WithClientProtocolDubbo(), client.WithClientSerialization(constant.Hessian2Serialization), client.WithClientRequestTimeout(10*time.Second))
	check(err)
	connection, err := consumer.Dial("dev.floodmark.sample.Sample")
	check(err)
	call := func(result interface{}, method string, arguments ...interface{}) {
		if err := connection.CallUnary(context.Background(), arguments, result, method); err != nil {
			fmt.Println(method, err)
			os.Exit(1)
		}
	}
	var text string
	call(&text, "hello", "world")
	same("hello world", text)
	large := strings.Repeat("flood 😀 mark é ", 8000)
	call(&text, "text", large)
	same(large, text)
	call(&text, "helloAsync", "go")
	same("hello go", text)
	var number int64
	call(&number, "widths", int8(1), int16(2), int32(3), int64(4))
	same(int64(10), number)
	var small int32
	call(&small, "nextInt", int32(41))
	same(int32(42), small)
	var ratio float64
	call(&ratio, "half", 2.5, float32(1.5))
	same(2.0, ratio)
	var yes bool
	call(&yes, "negate", false)
	same(true, yes)
	var data []byte
	call(&data, "reversedBytes", []byte{1, 2, 3})
	same([]byte{3, 2, 1}, data)
	text = "left"
	call(&text, "$echo", "ping")
	same("ping", text)
	call(&text, "$invoke", "hello", []string{"java.lang.String"}, []hessian.Object{"generic"})
	same("hello generic", text)
	// dubbo-go reads lists and maps of no declared type, as Java writes them, only into these.
	var numbers []interface{}
	call(&numbers, "sorted", []int64{3, 1, 2})
	same([]interface{}{int64(1), int64(2), int64(3)}, numbers)
	var words []string
	call(&words, "words", "to be or not")
	same([]string{"to", "be", "or", "not"}, words)
	call(&ratio, "summed", []int32{1, 2}, []float64{0.5, 0.25})
	same(3.75, ratio)
	var merged map[interface{}]interface{}
	call(&merged, "merged", map[string]float64{"a": 1.5}, map[string]float64{"b": 2.5})
	same(map[interface{}]interface{}{"a": 1.5, "b": 2.5}, merged)
	moment := time.UnixMilli(1_700_000_000_123)
	var answered time.Time
	call(&answered, "sameMoment", moment)
	same(moment.UnixMilli(), answered.UnixMilli())
	price := new(big.Decimal)
	check(price.FromString("4.25"))
	doubled := new(big.Decimal)
	call(doubled, "twice", price)
	same("8.50", doubled.String())
	var status Status
	call(&status, "nextStatus", Status(0))
	same("PAID", status.String())
	order := new(Order)
	call(order, "find", int64(7_000_000_000))
	same("Žofie 😀", order.Customer.Name)
	same([]string{"a", "b"}, order.Customer.Tags)
	same("4.50", order.Lines[0].UnitPrice.String())
	same("PAID", order.Status.String())
	same(int64(1_794_918_600_250), order.OrderedAt.UnixMilli())
	same(map[string]string{"door": "green"}, order.Remarks)
	same([]int32{1, 2, 3}, order.Pages)
	back := new(Order)
	call(back, "same", order)
	same(order.Lines[1].Product, back.Lines[1].Product)
	same(order.IsGift, back.IsGift)
	var missing *Order
	call(&missing, "nothing", "whatever")
	same((*Order)(nil), missing)
	err = connection.CallUnary(context.Background(), []interface{}{int64(5)}, order, "find")
	if err == nil || !strings.Contains(err.Error(), "there is no order 5") {
		fmt.Println("no typed error as it should be:", err)
		os.Exit(1)
	}
	ring := new(Node)
	call(ring, "ring", int32(3))
	same("0", ring.Next.Next.Next.Name)
	err = connection.CallUnary(context.Background(), []interface{}{"value"}, &text, "fails")
	if err == nil || !strings.Contains(err.Error(), "not a good value") {
		fmt.Println("no error as it should be:", err)
		os.Exit(1)
	}
	fmt.Println("all holds")
	os.Exit(0)
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
