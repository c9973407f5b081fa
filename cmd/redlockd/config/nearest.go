package config

import "redlockd/proxy"

// DidYouMean returns a suffix for an error about an unknown name: the known name nearest to it, if it was probably meant, else
// nothing.
func DidYouMean(name string, known []string) string {
	if nearest := proxy.Nearest(name, known); nearest != "" {
		return " (did you mean " + nearest + "?)"
	}
	return ""
}
