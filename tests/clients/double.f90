! Gets fields from `given`, puts each doubled into `made`, and JSON behind the last.
program doubles
    use diel
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none
    type(diel_stream) :: given, made
    type(diel_space) :: space
    type(diel_item) :: item
    real(real64), pointer :: field(:, :)
    integer :: code, count
    character(len=80) :: line

    call diel_open(given, 'given', code)
    if (code == DIEL_OK) call diel_open(made, 'made', code)
    if (code /= DIEL_OK) call fail()
    count = 0
    do
        call diel_get(given, item, code)
        if (code == DIEL_END) exit
        if (code /= DIEL_OK) call fail()
        call diel_values(item, field)
        if (.not. associated(field)) error stop 'no field of two dimensions'
        call diel_put(made, 2 * field, code)
        if (code /= DIEL_OK) call fail()
        call diel_release(item)
        count = count + 1
    end do
    write (line, '(a, i0, a)') '{"fields": ', count, '}'
    call diel_put(made, line, code)
    if (code == DIEL_OK) call diel_space_open(space, code)
    if (code == DIEL_OK) call diel_space_put(space, '["done", 1]', line, code)
    if (code == DIEL_OK) call diel_space_take(space, '["done", null]', item, code, 10.0_real64)
    if (code /= DIEL_OK) call fail()
    print '(a)', diel_key(item)//' '//diel_json(item)
    call diel_release(item)
    call diel_space_close(space)
    call diel_close(given, code)
    if (code == DIEL_OK) call diel_close(made, code)
    if (code /= DIEL_OK) call fail()
contains
    subroutine fail()
        print '(a)', diel_error()
        error stop 1
    end subroutine
end program
