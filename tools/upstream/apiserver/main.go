// Command apiserver answers requests to write resource.k8s.io objects, with the strategies of one Kubernetes release.
//
// It reads and writes lines like the program of the parent folder. A case is the request of a client:
//
//	apiserver validate <cases.jsonl >answers.jsonl
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/warning"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"

	"dralab/upstream/cases"
)

const (
	statusUpdate = "statusUpdate"
	// Stored objects have a UID and a version. Clients of an update need not name them.
	storedUID     = "00000000-0000-0000-0000-000000000001"
	storedVersion = "1"
)

var strict = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)

// write is a case: a request that creates or updates an object.
type write struct {
	Operation    string             `json:"operation"`
	FeatureGates map[string]bool    `json:"featureGates"`
	Namespaces   []corev1.Namespace `json:"namespaces"`
	User         struct {
		Name   string              `json:"name"`
		Groups []string            `json:"groups"`
		Extra  map[string][]string `json:"extra"`
	} `json:"user"`
	Checks    []check         `json:"authorizationChecks"`
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
}

// check is a decision of the authorizer. Requests without a check are allowed.
type check struct {
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Name        string `json:"name"`
	Allowed     bool   `json:"allowed"`
	Reason      string `json:"reason"`
}

// decision is the answer to a write.
type decision struct {
	Allowed  bool           `json:"allowed"`
	Errors   []problem      `json:"errors"`
	Object   map[string]any `json:"object,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
	Message  string         `json:"message,omitempty"`
}

type problem struct {
	Type  string `json:"type"`
	Field string `json:"field"`
	Body  string `json:"body"`
}

func main() {
	cases.Main(map[string]cases.Answerer{"validate": answerWrite})
}

func answerWrite(raw json.RawMessage) (answers []any, err error) {
	// A server answers such a request with 500.
	defer func() {
		if problem := recover(); problem != nil {
			answers, err = []any{map[string]string{"panic": fmt.Sprint(problem)}}, nil
		}
	}()
	var given write
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	if err := setFeatures(given.FeatureGates); err != nil {
		return nil, err
	}
	obj, kind, err := strict.UniversalDecoder().Decode(given.Object, nil, nil)
	if err != nil {
		return []any{map[string]string{"oracleError": err.Error()}}, nil
	}
	var old runtime.Object
	if given.Operation == "update" || given.Operation == statusUpdate {
		var stored *schema.GroupVersionKind
		if old, stored, err = legacyscheme.Codecs.UniversalDecoder().Decode(given.OldObject, nil, nil); err != nil {
			return nil, err
		}
		if old, err = store(old, stored.GroupVersion()); err != nil {
			return nil, err
		}
	}
	answer, err := given.decide(obj, old, *kind)
	if err != nil {
		return nil, err
	}
	return []any{map[string]decision{"server": answer}}, nil
}

// unset has every gate at its default.
var unset = utilfeature.DefaultMutableFeatureGate.DeepCopy()

func setFeatures(gates map[string]bool) error {
	// Gates cannot be set back after an error, so each case gets its own.
	fresh := unset.DeepCopy()
	utilfeature.DefaultMutableFeatureGate = fresh
	utilfeature.DefaultFeatureGate = fresh
	return fresh.SetFromMap(gates)
}

func (given *write) decide(obj, old runtime.Object, kind schema.GroupVersionKind) (decision, error) {
	var warnings warningList
	ctx := warning.WithWarningRecorder(context.Background(), &warnings)
	ctx, err := given.describe(ctx, obj, kind)
	if err != nil {
		return decision{}, err
	}
	target, err := given.strategy(kind.Kind)
	if err != nil {
		return decision{}, err
	}
	if old == nil {
		err = create(ctx, target, obj)
	} else {
		err = update(ctx, target, obj, old)
	}
	if err != nil {
		return refusal(err)
	}
	shown, err := encode(obj, kind.GroupVersion())
	return decision{Allowed: true, Errors: []problem{}, Object: shown, Warnings: warnings}, err
}

// describe adds what handlers know of a request before they call a strategy.
func (given *write) describe(ctx context.Context, obj runtime.Object, kind schema.GroupVersionKind) (context.Context, error) {
	about, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	info := &request.RequestInfo{
		IsResourceRequest: true,
		Verb:              "create",
		APIPrefix:         "apis",
		APIGroup:          kind.Group,
		APIVersion:        kind.Version,
		Resource:          resource.Resource,
		Namespace:         about.GetNamespace(),
		Name:              about.GetName(),
	}
	if given.Operation == "update" || given.Operation == statusUpdate {
		info.Verb = "update"
	}
	if given.Operation == statusUpdate {
		info.Subresource = "status"
	}
	ctx = request.WithRequestInfo(ctx, info)
	ctx = request.WithNamespace(ctx, about.GetNamespace())
	return request.WithUser(ctx, &user.DefaultInfo{
		Name:   given.User.Name,
		Groups: given.User.Groups,
		Extra:  given.User.Extra,
	}), nil
}

func create(ctx context.Context, strategy rest.RESTCreateUpdateStrategy, obj runtime.Object) error {
	about, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	// The storage layer rejects it later. The comparison ends before that.
	about.SetResourceVersion("")
	rest.FillObjectMetaSystemFields(about)
	return rest.BeforeCreate(strategy, ctx, obj)
}

func update(ctx context.Context, strategy rest.RESTCreateUpdateStrategy, obj, old runtime.Object) error {
	about, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	stored, err := meta.Accessor(old)
	if err != nil {
		return err
	}
	if stored.GetUID() == "" {
		stored.SetUID(storedUID)
	}
	stored.SetResourceVersion(storedVersion)
	about.SetResourceVersion(storedVersion)
	return rest.BeforeUpdate(strategy, ctx, obj, old)
}

// refusal returns the causes of an error that a client would see.
func refusal(err error) (decision, error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return decision{}, err
	}
	answer := decision{Errors: []problem{}, Message: err.Error()}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			answer.Errors = append(answer.Errors, problem{string(cause.Type), cause.Field, cause.Message})
		}
	}
	return answer, nil
}

// store returns the object as the store returns it, which does not tell an empty list from none.
func store(obj runtime.Object, version schema.GroupVersion) (runtime.Object, error) {
	stored, err := runtime.Encode(legacyscheme.Codecs.EncoderForVersion(protobuf.NewSerializer(nil, nil), version), obj)
	if err != nil {
		return nil, err
	}
	return runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), stored)
}

// encode returns the object as a client sees it, without fields that the server generates.
func encode(obj runtime.Object, version schema.GroupVersion) (map[string]any, error) {
	obj, err := store(obj, version)
	if err != nil {
		return nil, err
	}
	data, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(version), obj)
	if err != nil {
		return nil, err
	}
	var shown map[string]any
	// Large integers are not rounded.
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&shown); err != nil {
		return nil, err
	}
	if about, ok := shown["metadata"].(map[string]any); ok {
		for _, name := range []string{"uid", "creationTimestamp", "resourceVersion"} {
			delete(about, name)
		}
	}
	return shown, nil
}

type warningList []string

func (list *warningList) AddWarning(_, text string) { *list = append(*list, text) }

// namespaceReader only gets namespaces, which is all that strategies do.
type namespaceReader struct {
	corev1client.NamespaceInterface
	known []corev1.Namespace
}

func (reader namespaceReader) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	for index := range reader.known {
		if reader.known[index].Name == name {
			return &reader.known[index], nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
}

type checkAuthorizer []check

func (checks checkAuthorizer) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	for _, one := range checks {
		if one.Verb == asked.GetVerb() && one.Resource == asked.GetResource() &&
			one.Subresource == asked.GetSubresource() && one.Name == asked.GetName() && !one.Allowed {
			return authorizer.DecisionNoOpinion, one.Reason, nil
		}
	}
	return authorizer.DecisionAllow, "", nil
}

func unknownKind(kind string) error { return fmt.Errorf("no strategy for kind %q", kind) }
