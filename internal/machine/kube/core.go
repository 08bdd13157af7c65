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

// A Core is a client of the core API group. The clientsets of client-go link the types of all API groups, which would
// make the iotax binary 50 % larger.
type Core struct{ rest rest.Interface }

var (
	scheme     = runtime.NewScheme()
	parameters = runtime.NewParameterCodec(scheme)
)

func newCore(conf *rest.Config) (Core, error) {
	client, err := groupClient(conf, "/api", corev1.SchemeGroupVersion)
	return Core{client}, err
}

// groupClient returns a client of one API group.
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
			panic(err) // the library's own types are valid
		}
	}
}

func (c Core) Pods(ns string) *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return resource[corev1.Pod, corev1.PodList](c, "pods", ns)
}

func (c Core) PersistentVolumeClaims(ns string) *gentype.ClientWithList[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
	return resource[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](c, "persistentvolumeclaims", ns)
}

func (c Core) PersistentVolumes() *gentype.ClientWithList[*corev1.PersistentVolume, *corev1.PersistentVolumeList] {
	return resource[corev1.PersistentVolume, corev1.PersistentVolumeList](c, "persistentvolumes", "")
}

func (c Core) Nodes() *gentype.ClientWithList[*corev1.Node, *corev1.NodeList] {
	return resource[corev1.Node, corev1.NodeList](c, "nodes", "")
}

func (c Core) Events(ns string) *gentype.ClientWithList[*corev1.Event, *corev1.EventList] {
	return resource[corev1.Event, corev1.EventList](c, "events", ns)
}

func resource[T, L any, P interface {
	*T
	metav1.Object
	runtime.Object
}, Q interface {
	*L
	runtime.Object
}](c Core, name, ns string) *gentype.ClientWithList[P, Q] {
	return gentype.NewClientWithList[P, Q](name, c.rest, parameters, ns, func() P { return new(T) }, func() Q { return new(L) })
}
