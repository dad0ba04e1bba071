package main

import (
	"context"
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// expression is a case: a selector, and the device that it is evaluated for.
type expression struct {
	Features   []string `json:"features"`
	EnvType    string   `json:"envType"`
	Expression string   `json:"expression"`
	Driver     string   `json:"driver"`
	Device     struct {
		Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
		Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
		AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	} `json:"device"`
}

func answerExpression(raw json.RawMessage) ([]any, error) {
	var given expression
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	environmentType := environment.StoredExpressions
	if given.EnvType == "NewExpressions" {
		environmentType = environment.NewExpressions
	}
	compiler := cel.GetCompiler(celFeatures(sets.New(given.Features...)))
	result := compiler.CompileCELExpression(given.Expression, cel.Options{EnvType: &environmentType})
	if result.Error != nil {
		return []any{map[string]any{
			"compileError":     result.Error.Error(),
			"compileErrorType": string(result.Error.Type),
		}}, nil
	}
	answer := map[string]any{"estimatedCost": result.MaxCost, "outputType": result.OutputType.String()}
	device, err := celDevice(given)
	if err != nil {
		return nil, err
	}
	matches, details, err := result.DeviceMatches(context.Background(), device)
	if err != nil {
		answer["matchError"] = err.Error()
	} else {
		answer["match"] = matches
	}
	if details != nil {
		if cost := details.ActualCost(); cost != nil {
			answer["evaluationCost"] = *cost
		}
	}
	return []any{answer}, nil
}
