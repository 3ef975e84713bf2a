# The PyTorch adapter; skipped where there is no PyTorch to build it for.
function(add_torch_test name timeout)
  if(DTR_TORCH_FOUND)
    add_test(NAME torch/${name} COMMAND ${torch_python} ${ARGN}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/tests/torch)
    set_tests_properties(torch/${name} PROPERTIES
      ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1;DTRSCOPE_BIN=$<TARGET_FILE:dtrscope>;DTRSCOPE_SOURCE=${PROJECT_SOURCE_DIR}")
  else()
    add_test(NAME torch/${name} COMMAND ${CMAKE_COMMAND} -E echo
             "skipped: the PyTorch adapter was not built")
    set_tests_properties(torch/${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped")
  endif()
  set_tests_properties(torch/${name} PROPERTIES LABELS torch SKIP_RETURN_CODE 77
                       TIMEOUT ${timeout})
endfunction()

add_torch_test(identical 1200 identical.py --quick)
add_torch_test(behaviour 1800 behaviour.py)
add_torch_test(operators 900 operators.py --samples 20)
add_torch_test(unchanged 600 unchanged.py)
add_torch_test(doctor 120 -m dtrscope.doctor)
