#compdef redlockd

_redlockd() {
	local -a found=("${(@f)$(redlockd completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	local at=${words[(i)--]}
	if [[ $words[2] == run ]] && (( at < CURRENT )); then
		words=("${(@)words[at+1,-1]}")
		(( CURRENT -= at ))
		_normal
	elif [[ $found[1] == :files ]]; then
		_files
	else
		found=("${(@)found//:/\\:}")
		found=("${(@)found/$'\t'/:}")
		_describe redlockd found
	fi
}

if [[ $funcstack[1] == _redlockd ]]; then
	_redlockd "$@"
else
	compdef _redlockd redlockd
fi
