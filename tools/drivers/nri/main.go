// A container runtime's NRI socket without containers: plugins connect, are configured, and synchronize nothing.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/containerd/nri/pkg/adaptation"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: nri SOCKET")
	}
	synchronize := func(ctx context.Context, call adaptation.SyncCB) error {
		_, err := call(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
		return nil, nil
	}
	runtime, err := adaptation.New("dralab", "v0", synchronize, update,
		adaptation.WithSocketPath(os.Args[1]), adaptation.WithPluginPath(os.TempDir()+"/none"),
		adaptation.WithPluginConfigPath(os.TempDir()+"/none"))
	if err != nil {
		log.Fatal(err)
	}
	if err := runtime.Start(); err != nil {
		log.Fatal(err)
	}
	defer runtime.Stop()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
