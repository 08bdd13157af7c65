package kube

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// objects makes, reads and removes objects. A kind is named as in the cluster's addresses: "pods". ns is "" for kinds without
// a namespace. The clientsets of client-go link the types of all API groups, which would make the iotax binary 50 %
// larger, and its package gentype links fakes for tests.
type objects struct {
	core  rest.Interface
	batch rest.Interface // has the Jobs
}

var (
	scheme     = runtime.NewScheme()
	parameters = runtime.NewParameterCodec(scheme)
)

func newObjects(conf *rest.Config) (o objects, err error) {
	if o.core, err = group(conf, "/api", corev1.SchemeGroupVersion); err == nil {
		o.batch, err = group(conf, "/apis", batchv1.SchemeGroupVersion)
	}
	return o, err
}

// group returns a client of one API group.
func group(conf *rest.Config, path string, version schema.GroupVersion) (rest.Interface, error) {
	c := rest.CopyConfig(conf)
	c.APIPath, c.GroupVersion = path, &version
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

func init() {
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the library's own types are valid
		}
	}
}

func (o objects) on(verb, kind, ns string) *rest.Request {
	c := o.core
	if kind == "jobs" {
		c = o.batch
	}
	return c.Verb(verb).NamespaceIfScoped(ns, ns != "").Resource(kind)
}

// get reads an object into a value of its type.
func (o objects) get(ctx context.Context, kind, ns, name string, into runtime.Object) error {
	return o.on("GET", kind, ns).Name(name).Do(ctx).Into(into)
}

// list reads the selected objects into a list of their type.
func (o objects) list(ctx context.Context, kind, ns string, opts metav1.ListOptions, into runtime.Object) error {
	return o.on("GET", kind, ns).VersionedParams(&opts, parameters).Do(ctx).Into(into)
}

// create makes an object, and reads what became of it into a value of its type.
func (o objects) create(ctx context.Context, kind, ns string, object, into runtime.Object) error {
	return o.on("POST", kind, ns).Body(object).Do(ctx).Into(into)
}

func (o objects) remove(ctx context.Context, kind, ns, name string, opts metav1.DeleteOptions) error {
	return o.on("DELETE", kind, ns).Name(name).Body(&opts).Do(ctx).Error()
}
