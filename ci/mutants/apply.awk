# Puts every mutant of the list, the first file named, into the tree at `tree`: each in the place of
# the text it replaces, as a choice made at run time. Prints `NUMBER TAB CLASS TAB NAME` for each.
#
# The list: `file PATH`; below it `mutant NAME`, lines `- OLD` as they are in that file and lines
# `+ NEW`. OLD occurs once there; or with a line `@ TEXT`, which does, it is the first after that.
# `= WHY` says why no model and no test can tell the difference. What ends with a semicolon or
# a brace is a statement, the rest an expression. A mutant of several places stands there several
# times: after the first time by the part of its name before the colon.

/^file / { file = substr($0, 6); next }
/^mutant / {
    count++; of[count] = file; name[count] = short = substr($0, 8)
    sub(/:.*/, "", short)
    if (!(short in first)) first[short] = count
    number[count] = first[short]
    next
}
/^@ / { anchor[count] = substr($0, 3); next }
/^- / { old[count] = join(old[count], substr($0, 3)); next }
/^\+ / { new[count] = join(new[count], substr($0, 3)); next }
/^\+$/ { new[count] = join(new[count], ""); next }
/^= / { argued[count] = 1; next }
/^(#|$)/ { next }
{ fail("not understood: " $0) }

END {
    # What contains another comes first, so that the other is found within it.
    for (done = 0; done < count; done++) {
        longest = 0
        for (n = 1; n <= count; n++)
            if (!(n in applied) && (!longest || length(old[n]) > length(old[longest]))) longest = n
        apply(longest)
        applied[longest] = 1
    }
    for (path in text) {
        printf "%s", text[path] > (tree "/" path)
        close(tree "/" path)
    }
    for (n = 1; n <= count; n++)
        if (number[n] == n) print n "\t" ((n in argued) ? "argued" : "to die") "\t" name[n]
    exit broken
}

function apply(n,    path, start, at, before, after, choice) {
    path = of[n]
    if (!(path in text)) text[path] = original[path] = slurp(path)
    if (occurrences(original[path], n in anchor ? anchor[n] : old[n]) != 1)
        return fail(path ": not there once: " name[n])
    start = n in anchor ? index(text[path], anchor[n]) : 1
    at = index(substr(text[path], start), old[n])
    if (!at) return fail(path ": not there, or meets another mutant: " name[n])
    before = substr(text[path], 1, start + at - 2)
    after = substr(text[path], start + at - 1 + length(old[n]))
    choice = "if !crate::mutant::is(" number[n] ") { " old[n] " } else { " new[n] " }"
    text[path] = before (old[n] ~ /[;}]$/ ? choice : "(" choice ")") after
}

function slurp(path,    line, all) {
    while ((getline line < (tree "/" path)) > 0) all = all line "\n"
    close(tree "/" path)
    return all
}

function occurrences(all, part,    n, at) {
    while ((at = index(all, part)) > 0) {
        n++
        all = substr(all, at + length(part))
    }
    return n
}

function join(all, line) { return all == "" ? line : all "\n" line }

function fail(why) {
    print why > "/dev/stderr"
    broken = 1
}
