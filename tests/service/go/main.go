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
)

type Customer struct {
	Name     string      `hessian:"name"`
	Birthday interface{} `hessian:"birthday"`
	Tags     []string    `hessian:"tags"`
}

func (*Customer) JavaClassName() string { return "dev.floodmark.sample.Customer" }

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
