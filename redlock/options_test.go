package redlock

// Goal: what is wrong with options is told by their fields, with the values of a relation's both sides. Method: a table; each case
// changes one thing in options that are right.

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	right := DefaultOptions()
	right.Masters = []Master{{Addr: "a:1"}}
	if err := right.Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	for _, test := range []struct {
		change func(*Options)
		want   OptionError
	}{
		{func(o *Options) { o.Masters = nil }, OptionError{"Masters", "no masters are named", ""}},
		{func(o *Options) { o.MaxWaiters = -1 }, OptionError{"MaxWaiters", "-1 is outside 1 … 10000000", ""}},
		{func(o *Options) { o.MaxWait = 48 * time.Hour }, OptionError{"MaxWait", "48h is outside 1ms … 24h", ""}},
		{func(o *Options) { o.MinTTL = 6 * time.Minute }, OptionError{"MinTTL", "6m is above MaxTTL = 5m", "MaxTTL"}},
		{func(o *Options) { o.MinTTL = 9 * time.Millisecond }, OptionError{"MinTTL", "9ms is outside 10ms … 24h", ""}},
		{func(o *Options) { o.MaxHold = 5 * time.Second }, OptionError{"MaxHold", "5s is below MaxTTL = 5m", "MaxTTL"}},
		{func(o *Options) { o.RetryDelayMin = time.Second }, OptionError{"RetryDelayMin", "1s is above RetryDelayMax = 50ms", "RetryDelayMax"}},
		{func(o *Options) { o.MasterTimeout, o.MaxTTL = time.Second, time.Second },
			OptionError{"MasterTimeout", "1s is not small against MaxTTL = 1s: a master that hangs would use up the lock", "MaxTTL"}},
		{func(o *Options) { o.DriftFactor = 2 }, OptionError{"DriftFactor", "2 is outside 0 … 0.5: it is the part of a TTL by which clocks may drift", ""}},
	} {
		opts := right
		test.change(&opts)
		got, ok := errors.AsType[*OptionError](opts.Validate())
		if !ok || *got != test.want {
			t.Errorf("got %v, want %v", got, &test.want)
			continue
		}
		fields := reflect.TypeFor[Options]()
		if _, ok := fields.FieldByName(got.Option); !ok {
			t.Errorf("%s is no field of Options", got.Option)
		}
		if _, ok := fields.FieldByName(got.Other); !ok && got.Other != "" {
			t.Errorf("%s is no field of Options", got.Other)
		}
	}
}
