// Command upstream answers cases with the packages of one Kubernetes release.
//
// It reads one case a line from standard input and writes {"in": CASE, "out": ANSWER} for each to standard output, the
// form that "dralab conformance" compares. If answers vary between runs, "outcomes" has all that were seen.
//
//	upstream alloc|cel <cases.jsonl >answers.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
)

// An answerer returns the distinct answers to a case.
type answerer func(raw json.RawMessage) ([]any, error)

var subjects = map[string]answerer{
	"alloc": answerAllocation,
	"cel":   answerExpression,
}

// line is a case with its answers.
type line struct {
	In       json.RawMessage `json:"in,omitempty"`
	Out      any             `json:"out,omitempty"`
	Outcomes []any           `json:"outcomes,omitempty"`
	// Refused says why a line is not a case.
	Refused string `json:"refused,omitempty"`
}

func main() {
	// The allocator logs invalid objects, which are wanted here.
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(discard{})

	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

type discard struct{}

func (discard) Write(data []byte) (int, error) { return len(data), nil }

func run(args []string) error {
	if len(args) != 1 || subjects[args[0]] == nil {
		return fmt.Errorf("usage: upstream alloc|cel <cases.jsonl")
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

func answerLine(answer answerer, raw json.RawMessage) line {
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
