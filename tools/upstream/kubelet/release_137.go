//go:build k137

package main

import "context"

func (k *kubelet) register(driver string) error {
	found, err := findDriver(driver)
	if err != nil {
		return err
	}
	handler := k.manager.GetWatcherHandler()
	return handler.RegisterPlugin(context.Background(), driver, found.endpoint, []string{service}, nil)
}

func (k *kubelet) deregister(driver string) {
	if found, err := findDriver(driver); err == nil {
		k.manager.GetWatcherHandler().DeRegisterPlugin(context.Background(), driver, found.endpoint)
	}
}
