# fish completion for redlockd
function __redlockd
	set -l found (redlockd completion words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
	switch "$found[1]"
		case :files
			__fish_complete_path (commandline -ct)
		case :commands
			__fish_complete_command
		case '*'
			printf '%s\n' $found
	end
end
complete -c redlockd -f -a '(__redlockd)'
