# bash completion for redlockd
_redlockd() {
	local IFS=$'\n' current=${COMP_WORDS[COMP_CWORD]}
	[[ $current == = ]] && current=
	COMPREPLY=($(redlockd completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
	case ${COMPREPLY[0]} in
	:files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")) ;;
	:commands) COMPREPLY=($(compgen -c -- "$current")) ;;
	esac
}
complete -o default -F _redlockd redlockd
