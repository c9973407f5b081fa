package main

import (
	"iter"
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

// medianPercentiles takes the median of each percentile over the rounds. The rounds are not thrown into one
// distribution: a single disturbed round would then own all of the p99. One that measured nothing was not quick: it is left out.
func medianPercentiles[T any](rounds []T, of func(T) percentiles) percentiles {
	rounds = keep(rounds, func(r T) bool { return of(r) != percentiles{} })
	return percentiles{
		P50:  medianOf(rounds, func(r T) float64 { return of(r).P50 }),
		P99:  medianOf(rounds, func(r T) float64 { return of(r).P99 }),
		P999: medianOf(rounds, func(r T) float64 { return of(r).P999 }),
		Mean: medianOf(rounds, func(r T) float64 { return of(r).Mean }),
		Max:  medianOf(rounds, func(r T) float64 { return of(r).Max }),
	}
}

// medianOf is the median of one figure over the rounds; of an even number the mean of the middle two, of none 0.
func medianOf[T any](rounds []T, figure func(T) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	return median(values)
}

// rangeOf is the lowest and the highest of one figure over the rounds.
func rangeOf[T any](rounds []T, figure func(T) float64) (low, high float64) {
	for i, r := range rounds {
		v := figure(r)
		if i == 0 {
			low, high = v, v
		}
		low, high = min(low, v), max(high, v)
	}
	return low, high
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
