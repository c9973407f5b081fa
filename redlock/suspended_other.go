//go:build !linux

package redlock

import "time"

// suspended is not known outside Linux: there Lease.Validity is too long after the machine was suspended, until the masters are asked again.
func suspended() time.Duration { return 0 }
