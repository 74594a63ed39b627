// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/klient/decoder"
	"sigs.k8s.io/e2e-framework/klient/k8s"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"
	"sigs.k8s.io/e2e-framework/klient/wait"
	"sigs.k8s.io/e2e-framework/klient/wait/conditions"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/envfuncs"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/lastcall-dev/lastcall/fixtures/agentimage"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/kind/docker"
)

//go:embed manifests
var manifests embed.FS

// nodes are how many the cluster has.
const nodes = 2

var (
	testenv   env.Environment
	provider  = kind.NewProvider()
	cluster   = envconf.RandomName("e2e", 10)
	namespace = envconf.RandomName("echo", 10)
	image     agentimage.Image
	skipped   string // why there is no cluster; "" where there is one
)

// The cluster is made before the first test, and taken away after the last one.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	if testing.Short() {
		skipped = "it makes a kind cluster, and this is -short"
		return m.Run()
	}
	if _, err := docker.Ask(ctx); err != nil {
		skipped = err.Error()
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	if image, err = agentimage.Build(ctx, agentimage.Options{Source: "../..", Dir: dir}); err != nil {
		fmt.Println(err)
		return 1
	}
	testenv = env.New()
	testenv.Setup(
		envfuncs.CreateClusterWithOpts(provider, cluster, kind.WithNodes(nodes)),
		// Here, because tests give the cluster back and take it again.
		func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
			if !provider.Made() {
				return ctx, errors.New("the cluster is said to have stood before")
			}
			return ctx, nil
		},
		envfuncs.LoadImageArchiveToCluster(cluster, image.Archive),
		envfuncs.CreateNamespace(namespace),
	)
	testenv.Finish(envfuncs.DestroyCluster(cluster))
	code := testenv.Run(m)
	// e2e-framework only logs what Finish could not do.
	if _, err := kind.Open(ctx, cluster); !errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("cluster %s still stands: %v\n", cluster, err)
		return 1
	}
	return code
}

func needsCluster(t *testing.T) {
	t.Helper()
	if skipped != "" {
		t.Skip(skipped)
	}
}

// A feature deploys and looks.
func TestEcho(t *testing.T) {
	needsCluster(t)
	testenv.Test(t, features.New("the reference app").
		Setup(func(ctx context.Context, t *testing.T, cfg *envconf.Config) context.Context {
			withImage := func(o k8s.Object) error {
				o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = image.Ref
				return nil
			}
			err := decoder.DecodeEachFile(ctx, manifests, "manifests/*.yaml", decoder.CreateHandler(cfg.Client().Resources()),
				decoder.MutateNamespace(namespace), decoder.MutateOption(withImage))
			if err != nil {
				t.Fatal(err)
			}
			return ctx
		}).
		Assess("becomes available", func(ctx context.Context, t *testing.T, cfg *envconf.Config) context.Context {
			available := conditions.New(cfg.Client().Resources()).DeploymentAvailable("echo", namespace)
			if err := wait.For(available, wait.WithContext(ctx), wait.WithTimeout(time.Minute), wait.WithInterval(time.Second)); err != nil {
				t.Fatalf("the Deployment is not available: %v", err)
			}
			return ctx
		}).
		Assess("answers in each pod", func(ctx context.Context, t *testing.T, cfg *envconf.Config) context.Context {
			var pods corev1.PodList
			if err := cfg.Client().Resources(namespace).List(ctx, &pods, resources.WithLabelSelector("app=echo")); err != nil {
				t.Fatal(err)
			}
			if len(pods.Items) != 2 {
				t.Fatalf("%d pods, want 2", len(pods.Items))
			}
			set, err := kubernetes.NewForConfig(cfg.Client().RESTConfig())
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range pods.Items {
				if _, err := set.CoreV1().Pods(namespace).ProxyGet("http", pod.Name, "8080", "/readyz", nil).DoRaw(ctx); err != nil {
					t.Errorf("pod %s on node %s: %v", pod.Name, pod.Spec.NodeName, err)
				}
			}
			return ctx
		}).
		Feature())
}
