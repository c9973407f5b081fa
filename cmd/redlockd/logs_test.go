package main

// Goal: an operator who reads a warning or an error in the log at night reads in the same line what to do. Method: every call in the source that
// writes such a line has the attribute to_do.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestWarningsHelp(t *testing.T) {
	found := 0
	for _, root := range []string{".", "../../proxy", "../../redlock"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !writesWarning(call) {
					return true
				}
				found++
				if !saysWhatToDo(call) {
					t.Errorf("%s: a warning or error without to_do", files.Position(call.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("%d warnings found: are these all?", found)
	}
}

var logger = regexp.MustCompile(`^(log|.*[lL]ogger)$`)

// writesWarning tells whether the call is log.Warn or log.Error, or has one of their levels as an argument.
func writesWarning(call *ast.CallExpr) bool {
	if method, ok := call.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "Warn" || method.Sel.Name == "Error") && len(call.Args) > 0 {
		switch on := method.X.(type) {
		case *ast.Ident:
			return logger.MatchString(on.Name)
		case *ast.SelectorExpr:
			return logger.MatchString(on.Sel.Name)
		}
	}
	for _, arg := range call.Args {
		if level, ok := arg.(*ast.SelectorExpr); ok && (level.Sel.Name == "LevelWarn" || level.Sel.Name == "LevelError") {
			return true
		}
	}
	return false
}

// saysWhatToDo tells whether the call names the attribute. A variable called warning is a text from elsewhere that ends with what to do:
// see TestWarnings.
func saysWhatToDo(call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		switch arg := arg.(type) {
		case *ast.BasicLit:
			if arg.Value == `"to_do"` {
				return true
			}
		case *ast.Ident:
			if arg.Name == "warning" {
				return true
			}
		}
	}
	return false
}
