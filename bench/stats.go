package main

import (
	"iter"
	"reflect"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyMaxUs is the longest latency a percentile can show, one minute. What took longer counts as that.
const latencyMaxUs = 60_000_000

// percentiles of one distribution, in the unit that the field's name says. All 0 when nothing was measured.
type percentiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// percentilesOf reads values in microseconds into a histogram of three significant digits.
func percentilesOf(values iter.Seq[uint32]) percentiles {
	h := hdrhistogram.New(1, latencyMaxUs, 3)
	for v := range values {
		h.RecordValue(min(int64(v), latencyMaxUs))
	}
	if h.TotalCount() == 0 {
		return percentiles{}
	}
	return percentiles{
		P50:  float64(h.ValueAtPercentile(50)),
		P99:  float64(h.ValueAtPercentile(99)),
		P999: float64(h.ValueAtPercentile(99.9)),
		Mean: h.Mean(),
		Max:  float64(h.Max()),
	}
}

// medians sums up rounds, field by field: the median of a figure (float64), the sum of a count (int), all failures. The rounds'
// distributions are not thrown into one: a single disturbed round would then own all of the p99. A part that is all zero, of a round
// that measured nothing, was neither quick nor cheap: it is left out. Fields of other types stay empty.
func medians[Round any](rounds []Round) (all Round) {
	sumUp(reflect.ValueOf(&all).Elem(), column(rounds, func(r Round) reflect.Value { return reflect.ValueOf(r) }))
	return all
}

func sumUp(all reflect.Value, rounds []reflect.Value) {
	switch all.Kind() {
	case reflect.Float64:
		all.SetFloat(medianOf(rounds, reflect.Value.Float))
	case reflect.Int:
		for _, r := range rounds {
			all.SetInt(all.Int() + r.Int())
		}
	case reflect.Slice: // a time line, as long in every round
		if len(rounds) > 0 {
			all.Set(reflect.MakeSlice(all.Type(), rounds[0].Len(), rounds[0].Len()))
		}
		for i := range all.Len() {
			sumUp(all.Index(i), column(rounds, func(r reflect.Value) reflect.Value { return r.Index(i) }))
		}
	case reflect.Struct:
		rounds = keep(rounds, func(r reflect.Value) bool { return !r.IsZero() })
		if all.Type() == reflect.TypeFor[failures]() {
			for _, r := range rounds {
				one := r.Interface().(failures)
				all.Addr().Interface().(*failures).add(one.Count, one.Texts...)
			}
			return
		}
		for i := range all.NumField() {
			sumUp(all.Field(i), column(rounds, func(r reflect.Value) reflect.Value { return r.Field(i) }))
		}
	}
}

// medianOf is the median of one figure over the rounds; of an even number the mean of the middle two, of none 0.
func medianOf[T any](rounds []T, figure func(T) float64) float64 {
	return median(column(rounds, figure))
}

// rangeOf is the lowest and the highest of one figure over the rounds.
func rangeOf[T any](rounds []T, figure func(T) float64) (low, high float64) {
	if len(rounds) == 0 {
		return 0, 0
	}
	values := column(rounds, figure)
	return slices.Min(values), slices.Max(values)
}

// median sorts values in place.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// ratio is a/b, and 0 for "cannot tell" when there is no b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
