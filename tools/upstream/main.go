// Command upstream answers cases with the packages of one Kubernetes release.
//
// It reads one case a line from standard input and writes {"in": CASE, "out": ANSWER} for each to standard output, the
// form that "dralab conformance" compares. If answers vary between runs, "outcomes" has all that were seen.
//
//	upstream alloc|cel|tracker <cases.jsonl >answers.jsonl
package main

import "dralab/upstream/cases"

func main() {
	cases.Main(map[string]cases.Answerer{
		"alloc":   answerAllocation,
		"cel":     answerExpression,
		"tracker": answerHistory,
	})
}
