// Command get builds the Kubernetes that the tests use, unless it is in the user's cache, and prints its directory.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"iotax/internal/testenv/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := kube.Build(ctx, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
