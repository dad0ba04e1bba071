// Command qat makes the sysfs of two QAT devices in the folder that is its argument. It is built within the sources of
// Intel's drivers, whose tests have the functions for it.
package main

import (
	"log"
	"os"

	"github.com/intel/intel-resource-drivers-for-kubernetes/pkg/fakesysfs"
)

func main() {
	devices := fakesysfs.QATDevices{
		{Device: "0000:aa:00.0", State: "up", Services: "sym;asym", TotalVFs: 3},
		{Device: "0000:bb:00.0", State: "up", Services: "dc", TotalVFs: 3},
	}
	if err := fakesysfs.FakeSysFsQATContents(os.Args[1], devices); err != nil {
		log.Fatal(err)
	}
}
