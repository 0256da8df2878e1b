# The C types of matchers.py where setup.py compiles it (module compiled_matchers). Functions that return numbers name one that
# they never return, for exceptions: bounds are checked.

cimport cython

cdef int SLOTS, ESC, NUL, MARK, PLUS, STAR
cdef Py_ssize_t MAX_REPEATED, NO_MATCH, TOO_MANY, UNSET
cdef bytes MEMBERS, LOWER
cdef tuple _last

@cython.locals(last=tuple)
cdef bytes lowered(bytes subject)

cdef class TextMatcher:
    cdef tuple _contained, _prefixes, _suffixes
    cdef frozenset _equal
    cdef bint _negated
    @cython.locals(text=bytes, one=bytes)
    cpdef bint test(self, bytes subject) except -1

cdef class Program:
    cdef bytes code, prefix, required
    cdef bint begin, end
    cdef tuple marks

cdef class RegexMatcher:
    cdef bytes _pattern
    cdef tuple _programs
    cpdef bint test(self, bytes subject) except -1
    @cython.locals(end=Py_ssize_t)
    cpdef object search(self, bytes subject)
    @cython.locals(one=Program, start=Py_ssize_t, end=Py_ssize_t, marks=list)
    cpdef object capture(self, bytes subject)
    @cython.locals(one=Program, start=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t _end_index(self, bytes subject) except -9

@cython.locals(text=bytes, i=Py_ssize_t)
cdef Py_ssize_t first_start(Program one, bytes subject) except -9

@cython.locals(groups=list, k=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
cdef list groups_between(tuple places, list marks, bytes subject)

@cython.locals(
    size=Py_ssize_t, i=Py_ssize_t, p=Py_ssize_t, x=Py_ssize_t, behind=Py_ssize_t, end=Py_ssize_t, restart=Py_ssize_t,
    repeated=Py_ssize_t, seen=bint, slots="Py_ssize_t[8]", used=int, byte=int, item=int, many=int,
)
cdef Py_ssize_t end_index(
    bytes code, bint begin, bint anchored, bytes subject, Py_ssize_t start, list marks
) except -9

cdef Py_ssize_t close_group(bytes code, Py_ssize_t p, Py_ssize_t size, list marks) except -9

@cython.locals(item=int)
cdef Py_ssize_t position_behind(bytes code, Py_ssize_t x, int byte) except -9

@cython.locals(q=Py_ssize_t)
cdef bint may_end(bytes code, Py_ssize_t p, bint seen) except -1

cdef Py_ssize_t behind_mark(bytes code, Py_ssize_t q) except -9
