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
    for (n = 1; n <= count; n++) place(n)
    for (path in original) {
        printf "%s", render(path, 1, length(original[path]) + 1) > (tree "/" path)
        close(tree "/" path)
    }
    for (n = 1; n <= count; n++) {
        if ((n in begin) && !(n in applied)) fail(of[n] ": meets another mutant: " name[n])
        if (number[n] == n) print n "\t" ((n in argued) ? "argued" : "to die") "\t" name[n]
    }
    exit broken
}

# Finds the text that a mutant replaces.
function place(n,    path, start, at) {
    path = of[n]
    if (!(path in original)) original[path] = slurp(path)
    if (occurrences(original[path], n in anchor ? anchor[n] : old[n]) != 1)
        return fail(path ": not there once: " name[n])
    start = n in anchor ? index(original[path], anchor[n]) : 1
    at = index(substr(original[path], start), old[n])
    if (!at) return fail(path ": not there: " name[n])
    begin[n] = start + at - 1
    end[n] = begin[n] + length(old[n])
}

# A part of a file with its mutants. One may lie within another.
function render(path, from, to,    n, next_one, out) {
    while (1) {
        next_one = 0
        for (n = 1; n <= count; n++)
            if (of[n] == path && (n in begin) && !(n in applied) && begin[n] >= from &&
                end[n] <= to && (!next_one || begin[n] < begin[next_one] ||
                begin[n] == begin[next_one] && end[n] > end[next_one])) next_one = n
        if (!next_one) return out substr(original[path], from, to - from)
        applied[next_one] = 1
        out = out substr(original[path], from, begin[next_one] - from) \
            choice(next_one, render(path, begin[next_one], end[next_one]))
        from = end[next_one]
    }
}

function choice(n, before,    both) {
    both = "if !crate::mutant::is(" number[n] ") { " before " } else { " new[n] " }"
    return old[n] ~ /[;}]$/ ? both : "(" both ")"
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
