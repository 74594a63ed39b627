// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
)

// signalCommand signals an agent in the same pod, where the processes are
// shared: the way to a SIGKILL on clusters whose nodes are not ours to look
// into. The kernel delivers none to PID 1 from inside its own namespace.
func signalCommand() *cobra.Command {
	c := &cobra.Command{Use: "signal", Short: "Signal the agents of one role that share this one's processes", Args: noArgs}
	var role, name string
	c.Flags().StringVar(&role, "role", "echo", "the agent's subcommand")
	c.Flags().StringVar(&name, "signal", "KILL", "TERM or KILL")
	c.RunE = func(c *cobra.Command, _ []string) error {
		sig, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[name]
		if !ok {
			return usage("signal %q is not TERM or KILL", name)
		}
		pids, err := agentsOf("/proc", role)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return fmt.Errorf("no process here runs `agent %s`: are the pod's processes shared?", role)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, sig); err != nil {
				return fmt.Errorf("signalling %d: %w", pid, err)
			}
			fmt.Fprintln(c.OutOrStdout(), pid)
		}
		return nil
	}
	return c
}

// agentsOf finds the processes that run this binary with the given subcommand.
func agentsOf(proc, role string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("the processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		argv := bytes.Split(line, []byte{0})
		if len(argv) > 1 && filepath.Base(string(argv[0])) == filepath.Base(os.Args[0]) && string(argv[1]) == role {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
