package kube

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// A Core is the client of the core group. The clientsets of the library bring the objects of all groups along, half
// as much again as all of iotax.
type Core struct{ rest rest.Interface }

var (
	scheme     = runtime.NewScheme()
	parameters = runtime.NewParameterCodec(scheme)
)

func newCore(conf *rest.Config) (Core, error) {
	client, err := groupClient(conf, "/api", corev1.SchemeGroupVersion)
	return Core{client}, err
}

// groupClient is the client of one group of the cluster's objects.
func groupClient(conf *rest.Config, path string, version schema.GroupVersion) (rest.Interface, error) {
	c := rest.CopyConfig(conf)
	c.APIPath, c.GroupVersion = path, &version
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

func init() {
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // of types that the library was built with
		}
	}
}

func (c Core) Pods(ns string) *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return resource(c, "pods", ns, func() *corev1.Pod { return &corev1.Pod{} }, func() *corev1.PodList { return &corev1.PodList{} })
}

func (c Core) PersistentVolumeClaims(ns string) *gentype.ClientWithList[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
	return resource(c, "persistentvolumeclaims", ns, func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
		func() *corev1.PersistentVolumeClaimList { return &corev1.PersistentVolumeClaimList{} })
}

func (c Core) PersistentVolumes() *gentype.ClientWithList[*corev1.PersistentVolume, *corev1.PersistentVolumeList] {
	return resource(c, "persistentvolumes", "", func() *corev1.PersistentVolume { return &corev1.PersistentVolume{} },
		func() *corev1.PersistentVolumeList { return &corev1.PersistentVolumeList{} })
}

func (c Core) Nodes() *gentype.ClientWithList[*corev1.Node, *corev1.NodeList] {
	return resource(c, "nodes", "", func() *corev1.Node { return &corev1.Node{} }, func() *corev1.NodeList { return &corev1.NodeList{} })
}

func (c Core) Events(ns string) *gentype.ClientWithList[*corev1.Event, *corev1.EventList] {
	return resource(c, "events", ns, func() *corev1.Event { return &corev1.Event{} }, func() *corev1.EventList { return &corev1.EventList{} })
}

func resource[T interface {
	metav1.Object
	runtime.Object
}, L runtime.Object](c Core, name, ns string, one func() T, list func() L) *gentype.ClientWithList[T, L] {
	return gentype.NewClientWithList[T, L](name, c.rest, parameters, ns, one, list)
}
