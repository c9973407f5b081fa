// Package access says who may do what: users with their passwords, patterns of names, groups of
// commands, and policies of resources. It is pure: it asks no clock, does no I/O and keeps nothing.
// What a limit counts, and what is answered when one is reached, is package proxy's.
//
//	user.go, policy.go  what an operator writes, and whether it is valid
//	password.go         LogIn compares names and passwords in constant time
//	glob.go             Match compares names with patterns
package access
