// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/reports/pacing"
)

// seed of the simulation: who runs it again sees the same.
const seed = 1

func newPacing() *cobra.Command {
	var q pacing.Question
	var format, picture string
	var agents int
	cmd := &cobra.Command{
		Use:   "pacing --replicas N",
		Short: "Say how long a rollout has to wait at each replica until agents are back (minReadySeconds)",
		Long: `Say how long a rollout has to wait at each new replica, as minReadySeconds, until
an agent that reaches the replicas through one balancer has a tunnel to it.

Such an agent can't choose. It tries until the balancer gives it the replica that
it lacks, one in N each time: at once, and before try n it waits for a time between
2n and 4n seconds. After a success it counts anew. A rollout that goes on before the
agents are back takes more of their tunnels, until they have none.

Three answers stand beside each other: the table and the formula of the discussion
that this is from (gravitational/teleport issue 13129), and the exact distribution.
It says where they differ, and which one to trust.

Nothing is run, and no cluster is needed. Exit codes: 0 answered; 2 bad input.`,
		Example: `  lastcall pacing --replicas 3 --probability 0.9
  lastcall pacing --replicas 3 --agents 200            # until all of 200 agents are back
  lastcall pacing --replicas 4 --missing 4             # an agent that begins with no tunnel
  lastcall pacing --replicas 3 --plot pacing.png --simulate 1000000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := asked(cmd, q, format, picture, agents)
			if err != nil {
				return err
			}
			var plot *os.File
			if picture != "" {
				// Before anything is computed: it may not be possible.
				if plot, err = os.Create(picture); err != nil {
					return fmt.Errorf("--plot: %w: name a file in a directory that may be written to", err)
				}
				defer plot.Close()
			}
			a, err := pacing.Of(q)
			if err != nil {
				return err
			}
			if agents != 0 {
				seen, err := pacing.Simulate(q, agents, seed)
				if err != nil {
					return err
				}
				a.Simulated = &pacing.Simulated{Agents: agents, Back: seen.Back(a.Exact.Seconds)}
			}
			if plot != nil {
				if err := errors.Join(pacing.WritePNG(plot, a), plot.Close()); err != nil {
					return fmt.Errorf("--plot: %w", err)
				}
			}
			return write(cmd.OutOrStdout(), a)
		},
	}
	f := cmd.Flags()
	f.IntVar(&q.Replicas, "replicas", 0, "how many `N` the balancer can pick from while the rollout waits, the new one among them; with a surge it is one more than the Deployment has")
	f.Float64Var(&q.Probability, "probability", 0.9, "the probability `P` with which the agents are to be back, between 0 and 1")
	f.IntVar(&q.Agents, "agents", 1, "how many have to be back, all of them: each then with the probability P^(1/`A`)")
	f.IntVar(&q.Missing, "missing", 1, "how many tunnels `M` an agent lacks, of N; it gets them one after the other")
	f.IntVar(&agents, "simulate", 0, "let so many `AGENTS` go through it, and say how many were back by the exact time")
	f.StringVar(&picture, "plot", "", "draw the probability over time, with all three answers, into this `FILE` (PNG)")
	f.StringVarP(&format, "output", "o", "text", "text or yaml")
	return cmd
}

// asked tells all that is wrong with the command line, before anything is computed.
func asked(cmd *cobra.Command, q pacing.Question, format, picture string, agents int) (func(io.Writer, *pacing.Answer) error, error) {
	write, ok := map[string]func(io.Writer, *pacing.Answer) error{
		"text": pacing.WriteText, "yaml": pacing.WriteYAML,
	}[format]
	var bad []error
	if !ok {
		bad = append(bad, fmt.Errorf("-o %q: it is text or yaml", format))
	}
	if cmd.Flags().Changed("plot") && filepath.Ext(picture) != ".png" {
		bad = append(bad, fmt.Errorf("--plot %q: it is a PNG: name a file that ends in .png", picture))
	}
	if !cmd.Flags().Changed("replicas") {
		return nil, errors.Join(append(bad, errors.New("--replicas is missing: give how many the balancer picks from, the new one counted"))...)
	}
	wrong := q.Mistakes()
	if len(wrong) == 0 && agents != 0 {
		if err := q.CanSimulate(agents); err != nil {
			wrong = append(wrong, err)
		}
	}
	for _, err := range wrong {
		bad = append(bad, fmt.Errorf("--%w", err))
	}
	return write, errors.Join(bad...)
}
