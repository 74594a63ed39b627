// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilexec "k8s.io/client-go/util/exec"
)

// Only what a kill does to the command that sends it is taken for one.
func TestEndedByKill(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{utilexec.CodeExitError{Err: errors.New("killed"), Code: 137}, true},
		{fmt.Errorf("the stream: %w", io.EOF), true},
		{utilexec.CodeExitError{Err: errors.New("no such process"), Code: 1}, false},
		{utilexec.CodeExitError{Err: errors.New("no /agent"), Code: 127}, false},
		{apierrors.NewForbidden(schema.GroupResource{Resource: "pods/exec"}, "echo-1", errors.New("no")), false},
		{errors.New(`unable to upgrade connection: container not found ("echo")`), false},
	} {
		if got := endedByKill(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
