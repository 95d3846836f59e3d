! diel.f90: streams and the tuple space of a diel run, for programs in Fortran (2008). docs/c.md has the guide.
!
!     use diel
!     type(diel_stream) :: samples
!     call diel_open(samples, 'samples', code)
!     call diel_put(samples, positions, code)          ! an array, a text of JSON, or diel_bytes(...)
!     call diel_close(samples, code)
!
! `code` is DIEL_OK or one of the codes of diel.h; diel_error() has the words. An array is put as it lies in memory:
! a(nx, ny) is an item of shape [ny, nx] to C and Python, whose last index is the fastest. diel_get gives a Fortran
! array its shape back the same way.
module diel
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: real32, real64, int32, int64
    implicit none
    private
    public :: diel_stream, diel_space, diel_item, diel_error, diel_open, diel_close, diel_give_up, diel_put, diel_get
    public :: diel_flush, diel_commit, diel_number, diel_resume, diel_release, diel_json, diel_values, diel_key
    public :: diel_space_open, diel_space_close, diel_space_put, diel_space_read, diel_space_take, diel_space_commit

    integer, parameter, public :: DIEL_OK = 0, DIEL_END = 1, DIEL_TIMEOUT = 2, DIEL_BROKEN = 3, DIEL_LOST = 4, &
                                  DIEL_REFUSED = 5, DIEL_USAGE = 6, DIEL_SYSTEM = 7
    real(real64), parameter, public :: DIEL_FOREVER = -1

    type :: diel_stream
        type(c_ptr), private :: c = c_null_ptr
    end type
    type :: diel_space
        type(c_ptr), private :: c = c_null_ptr
    end type

    type, bind(c) :: c_array
        type(c_ptr) :: at = c_null_ptr, dtype = c_null_ptr
        integer(c_int) :: ndim = 0
        type(c_ptr) :: shape = c_null_ptr, data = c_null_ptr
    end type
    type, bind(c) :: diel_item
        type(c_ptr), private :: json = c_null_ptr, bytes = c_null_ptr
        integer(c_size_t), private :: size = 0, count = 0
        type(c_ptr), private :: arrays = c_null_ptr, key = c_null_ptr, held = c_null_ptr
    end type

    ! Puts a text of JSON, or an array of real(real64) with one to three dimensions.
    interface diel_put
        module procedure put_json, put_1, put_2, put_3
    end interface
    interface diel_space_put
        module procedure space_put_json, space_put_1, space_put_2
    end interface
    ! The item's (first) array of real(real64), as a pointer into it that is good until diel_release.
    interface diel_values
        module procedure values_1, values_2, values_3
    end interface

    interface
        integer(c_size_t) function strlen(text) bind(c)
            import
            type(c_ptr), value :: text
        end function
        type(c_ptr) function c_error() bind(c, name='diel_error')
            import
        end function
        integer(c_int) function c_open(stream, name, rank) bind(c, name='diel_open')
            import
            type(c_ptr), intent(out) :: stream
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: rank
        end function
        integer(c_int) function c_put(stream, item, timeout) bind(c, name='diel_put')
            import
            type(c_ptr), value :: stream
            type(diel_item), intent(in) :: item
            real(c_double), value :: timeout
        end function
        integer(c_int) function c_get(stream, item, timeout) bind(c, name='diel_get')
            import
            type(c_ptr), value :: stream
            type(diel_item), intent(out) :: item
            real(c_double), value :: timeout
        end function
        integer(c_int) function c_flush(stream, timeout) bind(c, name='diel_flush')
            import
            type(c_ptr), value :: stream
            real(c_double), value :: timeout
        end function
        integer(c_int) function c_commit(stream) bind(c, name='diel_commit')
            import
            type(c_ptr), value :: stream
        end function
        integer(c_int64_t) function c_number(stream) bind(c, name='diel_number')
            import
            type(c_ptr), value :: stream
        end function
        integer(c_int64_t) function c_resume(stream) bind(c, name='diel_resume')
            import
            type(c_ptr), value :: stream
        end function
        integer(c_int) function c_close(stream) bind(c, name='diel_close')
            import
            type(c_ptr), value :: stream
        end function
        integer(c_int) function c_give_up(stream) bind(c, name='diel_give_up')
            import
            type(c_ptr), value :: stream
        end function
        subroutine diel_release(item) bind(c)
            import
            type(diel_item), intent(inout) :: item
        end subroutine
        integer(c_int) function c_space_open(space, rank) bind(c, name='diel_space_open')
            import
            type(c_ptr), intent(out) :: space
            integer(c_int), value :: rank
        end function
        integer(c_int) function c_space_put(space, key, value) bind(c, name='diel_space_put')
            import
            type(c_ptr), value :: space
            character(kind=c_char), intent(in) :: key(*)
            type(diel_item), intent(in) :: value
        end function
        integer(c_int) function c_space_read(space, pattern, found, timeout) bind(c, name='diel_space_read')
            import
            type(c_ptr), value :: space
            character(kind=c_char), intent(in) :: pattern(*)
            type(diel_item), intent(out) :: found
            real(c_double), value :: timeout
        end function
        integer(c_int) function c_space_take(space, pattern, found, timeout) bind(c, name='diel_space_take')
            import
            type(c_ptr), value :: space
            character(kind=c_char), intent(in) :: pattern(*)
            type(diel_item), intent(out) :: found
            real(c_double), value :: timeout
        end function
        integer(c_int) function c_space_commit(space) bind(c, name='diel_space_commit')
            import
            type(c_ptr), value :: space
        end function
        subroutine c_space_close(space) bind(c, name='diel_space_close')
            import
            type(c_ptr), value :: space
        end subroutine
    end interface

contains

    ! A text of C's as Fortran's; empty where there is none.
    function plain(from) result(text)
        type(c_ptr), intent(in) :: from
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        integer :: n
        if (.not. c_associated(from)) then
            text = ''
            return
        end if
        call c_f_pointer(from, letters, [strlen(from)])
        allocate (character(len=size(letters)) :: text)
        do n = 1, size(letters)
            text(n:n) = letters(n)
        end do
    end function

    function diel_error() result(words)
        character(len=:), allocatable :: words
        words = plain(c_error())
    end function

    ! The timeout in seconds, for ever where none is given.
    real(c_double) function seconds(timeout)
        real(real64), intent(in), optional :: timeout
        seconds = DIEL_FOREVER
        if (present(timeout)) seconds = timeout
    end function

    integer(c_int) function ranked(rank)
        integer, intent(in), optional :: rank
        ranked = -1
        if (present(rank)) ranked = int(rank, c_int)
    end function

    ! --- streams ---

    subroutine diel_open(stream, name, code, rank)
        type(diel_stream), intent(out) :: stream
        character(len=*), intent(in) :: name
        integer, intent(out) :: code
        integer, intent(in), optional :: rank
        code = c_open(stream%c, trim(name)//c_null_char, ranked(rank))
    end subroutine

    subroutine put_json(stream, json, code, timeout)
        type(diel_stream), intent(in) :: stream
        character(len=*), intent(in) :: json
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        character(len=:), allocatable, target :: ended
        type(diel_item) :: item
        ended = trim(json)//c_null_char
        item%json = c_loc(ended)
        code = c_put(stream%c, item, seconds(timeout))
    end subroutine

    ! An item that is one array; sizes and what points to it must live on.
    subroutine describe(item, array, sizes, data)
        type(diel_item), intent(out) :: item
        type(c_array), intent(out), target :: array
        integer(c_int64_t), intent(in), target :: sizes(:)
        type(c_ptr), intent(in) :: data
        character(kind=c_char), parameter :: order = merge('>', '<', iachar(transfer(1_int32, 'a')) == 0)
        character(kind=c_char, len=4), target, save :: dtype = order//'f8'//c_null_char
        array%dtype = c_loc(dtype)
        array%ndim = size(sizes)
        array%shape = c_loc(sizes)
        array%data = data
        item%count = 1
        item%arrays = c_loc(array)
    end subroutine

    subroutine put_shaped(stream, sizes, data, code, timeout)
        type(diel_stream), intent(in) :: stream
        integer(c_int64_t), intent(in), target :: sizes(:)
        type(c_ptr), intent(in) :: data
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        type(diel_item) :: item
        type(c_array), target :: array
        call describe(item, array, sizes, data)
        code = c_put(stream%c, item, seconds(timeout))
    end subroutine

    ! The shape as C and Python see it: the fastest index last.
    pure function turned(given) result(sizes)
        integer, intent(in) :: given(:)
        integer(c_int64_t) :: sizes(size(given))
        sizes = given(size(given):1:-1)
    end function

    subroutine put_1(stream, values, code, timeout)
        type(diel_stream), intent(in) :: stream
        real(real64), intent(in), target, contiguous :: values(:)
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        call put_shaped(stream, turned(shape(values)), c_loc(values), code, timeout)
    end subroutine

    subroutine put_2(stream, values, code, timeout)
        type(diel_stream), intent(in) :: stream
        real(real64), intent(in), target, contiguous :: values(:, :)
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        call put_shaped(stream, turned(shape(values)), c_loc(values), code, timeout)
    end subroutine

    subroutine put_3(stream, values, code, timeout)
        type(diel_stream), intent(in) :: stream
        real(real64), intent(in), target, contiguous :: values(:, :, :)
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        call put_shaped(stream, turned(shape(values)), c_loc(values), code, timeout)
    end subroutine

    subroutine diel_flush(stream, code, timeout)
        type(diel_stream), intent(in) :: stream
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        code = c_flush(stream%c, seconds(timeout))
    end subroutine

    subroutine diel_get(stream, item, code, timeout)
        type(diel_stream), intent(in) :: stream
        type(diel_item), intent(out) :: item
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        code = c_get(stream%c, item, seconds(timeout))
    end subroutine

    subroutine diel_commit(stream, code)
        type(diel_stream), intent(in) :: stream
        integer, intent(out) :: code
        code = c_commit(stream%c)
    end subroutine

    integer(int64) function diel_number(stream)
        type(diel_stream), intent(in) :: stream
        diel_number = c_number(stream%c)
    end function

    integer(int64) function diel_resume(stream)
        type(diel_stream), intent(in) :: stream
        diel_resume = c_resume(stream%c)
    end function

    subroutine diel_close(stream, code)
        type(diel_stream), intent(inout) :: stream
        integer, intent(out) :: code
        code = c_close(stream%c)
        stream%c = c_null_ptr
    end subroutine

    subroutine diel_give_up(stream, code)
        type(diel_stream), intent(inout) :: stream
        integer, intent(out) :: code
        code = c_give_up(stream%c)
        stream%c = c_null_ptr
    end subroutine

    ! --- items ---

    ! The item's JSON, with null in the places of arrays; empty for bytes.
    function diel_json(item) result(text)
        type(diel_item), intent(in) :: item
        character(len=:), allocatable :: text
        text = plain(item%json)
    end function

    ! The key of a tuple, a JSON list.
    function diel_key(item) result(text)
        type(diel_item), intent(in) :: item
        character(len=:), allocatable :: text
        text = plain(item%key)
    end function

    ! Where the first array's values are, and its sizes in Fortran's order; null if it has other dimensions or type.
    subroutine first_array(item, ndim, data, sizes)
        type(diel_item), intent(in) :: item
        integer, intent(in) :: ndim
        type(c_ptr), intent(out) :: data
        integer, intent(out) :: sizes(ndim)
        type(c_array), pointer :: array
        integer(c_int64_t), pointer :: given(:)
        data = c_null_ptr
        sizes = 0
        if (item%count < 1) return
        call c_f_pointer(item%arrays, array)
        if (array%ndim /= ndim .or. index(plain(array%dtype), 'f8') /= 2) return
        call c_f_pointer(array%shape, given, [ndim])
        sizes = int(given(ndim:1:-1))
        data = array%data
    end subroutine

    subroutine values_1(item, values)
        type(diel_item), intent(in) :: item
        real(real64), pointer, intent(out) :: values(:)
        type(c_ptr) :: data
        integer :: sizes(1)
        call first_array(item, 1, data, sizes)
        nullify (values)
        if (c_associated(data)) call c_f_pointer(data, values, sizes)
    end subroutine

    subroutine values_2(item, values)
        type(diel_item), intent(in) :: item
        real(real64), pointer, intent(out) :: values(:, :)
        type(c_ptr) :: data
        integer :: sizes(2)
        call first_array(item, 2, data, sizes)
        nullify (values)
        if (c_associated(data)) call c_f_pointer(data, values, sizes)
    end subroutine

    subroutine values_3(item, values)
        type(diel_item), intent(in) :: item
        real(real64), pointer, intent(out) :: values(:, :, :)
        type(c_ptr) :: data
        integer :: sizes(3)
        call first_array(item, 3, data, sizes)
        nullify (values)
        if (c_associated(data)) call c_f_pointer(data, values, sizes)
    end subroutine

    ! --- the tuple space ---

    subroutine diel_space_open(space, code, rank)
        type(diel_space), intent(out) :: space
        integer, intent(out) :: code
        integer, intent(in), optional :: rank
        code = c_space_open(space%c, ranked(rank))
    end subroutine

    subroutine space_put_json(space, key, json, code)
        type(diel_space), intent(in) :: space
        character(len=*), intent(in) :: key, json
        integer, intent(out) :: code
        character(len=:), allocatable, target :: ended
        type(diel_item) :: item
        ended = trim(json)//c_null_char
        item%json = c_loc(ended)
        code = c_space_put(space%c, trim(key)//c_null_char, item)
    end subroutine

    subroutine space_put_shaped(space, key, sizes, data, code)
        type(diel_space), intent(in) :: space
        character(len=*), intent(in) :: key
        integer(c_int64_t), intent(in), target :: sizes(:)
        type(c_ptr), intent(in) :: data
        integer, intent(out) :: code
        type(diel_item) :: item
        type(c_array), target :: array
        call describe(item, array, sizes, data)
        code = c_space_put(space%c, trim(key)//c_null_char, item)
    end subroutine

    subroutine space_put_1(space, key, values, code)
        type(diel_space), intent(in) :: space
        character(len=*), intent(in) :: key
        real(real64), intent(in), target, contiguous :: values(:)
        integer, intent(out) :: code
        call space_put_shaped(space, key, turned(shape(values)), c_loc(values), code)
    end subroutine

    subroutine space_put_2(space, key, values, code)
        type(diel_space), intent(in) :: space
        character(len=*), intent(in) :: key
        real(real64), intent(in), target, contiguous :: values(:, :)
        integer, intent(out) :: code
        call space_put_shaped(space, key, turned(shape(values)), c_loc(values), code)
    end subroutine

    subroutine diel_space_read(space, pattern, item, code, timeout)
        type(diel_space), intent(in) :: space
        character(len=*), intent(in) :: pattern
        type(diel_item), intent(out) :: item
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        code = c_space_read(space%c, trim(pattern)//c_null_char, item, seconds(timeout))
    end subroutine

    subroutine diel_space_take(space, pattern, item, code, timeout)
        type(diel_space), intent(in) :: space
        character(len=*), intent(in) :: pattern
        type(diel_item), intent(out) :: item
        integer, intent(out) :: code
        real(real64), intent(in), optional :: timeout
        code = c_space_take(space%c, trim(pattern)//c_null_char, item, seconds(timeout))
    end subroutine

    subroutine diel_space_commit(space, code)
        type(diel_space), intent(in) :: space
        integer, intent(out) :: code
        code = c_space_commit(space%c)
    end subroutine

    subroutine diel_space_close(space)
        type(diel_space), intent(inout) :: space
        call c_space_close(space%c)
        space%c = c_null_ptr
    end subroutine
end module
