package proxy

import "strings"

// Nearest returns the name of known that is nearest to name, if it is so near that it was probably
// meant, else "". Case counts for nothing. It is for the errors about unknown names, of commands here
// and of everything else that is named on a command line. It takes a time of the product of the
// lengths, so bound the length of a name that a client sends.
func Nearest(name string, known []string) string {
	best, distance := "", len(name)/3+2 // a third of the letters may be wrong, and one more
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts the letters to insert, delete, replace, or swap with their neighbour, that lead
// from a to b (the optimal string alignment distance).
func editDistance(a, b string) int {
	// Three rows of the usual table: swaps look two rows back.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
