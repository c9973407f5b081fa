// Package survey asks masters what they show of the membership, over connections of its own, made anew
// each time. So it sees who stands behind an address now, also where a lane is still connected to
// somebody else. Everything that is decided about the membership is decided from one survey (package
// member), and the steps that follow from it use its connections (step.go).
package survey
