# Fish completion of weir: asks the program what could stand at the cursor.

function __weir_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l typed $words[-1]
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null </dev/null)
        switch $line
            case ':files'
                __weir_paths $typed __fish_complete_path
            case ':dirs'
                __weir_paths $typed __fish_complete_directories
            case '*'
                # Behind --option= the program offers the value alone.
                if string match -qr '^--[^=]*=' -- $typed
                    set line (string replace -r '=.*' '=' -- $typed)$line
                end
                echo $line
        end
    end
end

# Names behind the last =, if there is one, and what stands before it.
function __weir_paths -a typed finder
    set -l before (string replace -r '[^=]*$' '' -- $typed)
    for line in ($finder (string replace -r '^.*=' '' -- $typed))
        echo $before$line
    end
end

complete -c weir -f -a '(__weir_complete)'
