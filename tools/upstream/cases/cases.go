// Package cases reads cases line by line and writes their answers.
package cases

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

// An Answerer returns the distinct answers to a case.
type Answerer func(raw json.RawMessage) ([]any, error)

// line is a case with its answers.
type line struct {
	In       json.RawMessage `json:"in,omitempty"`
	Out      any             `json:"out,omitempty"`
	Outcomes []any           `json:"outcomes,omitempty"`
	// Refused says why a line is not a case.
	Refused string `json:"refused,omitempty"`
}

// Main answers the cases of the subject that the command line names, and exits with 1 if it names none.
func Main(subjects map[string]Answerer) {
	// Discard the logs: the packages log each invalid object, and cases have invalid objects on purpose.
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)

	if err := run(subjects, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(subjects map[string]Answerer, args []string) error {
	if len(args) != 1 || subjects[args[0]] == nil {
		var names []string
		for name := range subjects {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("usage: %s %s <cases.jsonl", os.Args[0], strings.Join(names, "|"))
	}
	answer := subjects[args[0]]
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for input.Scan() {
		raw := json.RawMessage(append([]byte(nil), input.Bytes()...))
		if err := encoder.Encode(answerLine(answer, raw)); err != nil {
			return err
		}
		// A shrinking search asks one case at a time.
		if err := output.Flush(); err != nil {
			return err
		}
	}
	return input.Err()
}

func answerLine(answer Answerer, raw json.RawMessage) line {
	if !json.Valid(raw) {
		return line{Refused: "not JSON"}
	}
	outcomes, err := answer(raw)
	if err != nil {
		return line{In: raw, Refused: err.Error()}
	}
	result := line{In: raw, Out: outcomes[0]}
	if len(outcomes) > 1 {
		result.Outcomes = outcomes
	}
	return result
}
