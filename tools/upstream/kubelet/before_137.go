//go:build !k137

package main

func (k *kubelet) register(driver string) error {
	found, err := findDriver(driver)
	if err != nil {
		return err
	}
	return k.manager.GetWatcherHandler().RegisterPlugin(driver, found.endpoint, []string{service}, nil)
}

func (k *kubelet) deregister(driver string) {
	if found, err := findDriver(driver); err == nil {
		k.manager.GetWatcherHandler().DeRegisterPlugin(driver, found.endpoint)
	}
}
