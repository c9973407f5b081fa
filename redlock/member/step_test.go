package member

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The steps of a survey, as far as they need no masters.

// askEach returns as soon as enough have agreed, or after the grace, or when it is clear that they will not.
func TestAskEach(t *testing.T) {
	slow := errors.New("slow")
	for _, tt := range []struct {
		name    string
		answers []error // slow: it answers after a minute
		quorum  int
		grace   time.Duration
		agreed  int // −1: an error
		took    time.Duration
		want    string
	}{
		{"all agree", []error{nil, nil, nil}, 2, time.Second, 3, 0, ""},
		{"a quorum is enough", []error{nil, nil, slow}, 2, 0, 2, 0, ""},
		{"some time for the others", []error{nil, nil, slow}, 2, time.Second, 2, time.Second, ""},
		{"a quorum comes late", []error{nil, slow, slow}, 2, 0, 2, time.Minute, ""},
		{"too few", []error{nil, errAway, errors.New("full")}, 2, 0, -1, 0, "1 of 3 masters agreed, 2 are needed: m1: the master is away; m2: full"},
		{"too few, for others were ahead", []error{nil, ErrOutrun, errAway}, 2, 0, -1, 0, ErrOutrun.Error()},
		{"enough, although others were ahead", []error{nil, ErrOutrun, nil}, 2, 0, 2, 0, ""},
		{"fewer than a quorum are asked", []error{nil}, 2, 0, -1, 0, "1 of 1 masters agreed, 2 are needed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			sv := &Survey{}
			var list []*Report
			for i := range tt.answers {
				list = append(list, foundAt(i, processMemory(i, 1), nil))
			}
			began := time.Now()
			agreed, err := sv.askEach(list, tt.quorum, tt.grace, func(f *Report) error {
				if err := tt.answers[f.Place]; err != slow {
					return err
				}
				time.Sleep(time.Minute)
				return nil
			})
			took := time.Since(began)
			sv.asking.Wait()
			switch {
			case tt.agreed < 0:
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %d, %v, want %q", tt.name, len(agreed), err, tt.want)
				}
			case err != nil || len(agreed) < tt.agreed:
				t.Errorf("%s: got %d, %v, want %d", tt.name, len(agreed), err, tt.agreed)
			}
			if took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
		})
	}
}
