find_program(PYTHON3 python3)
add_test(NAME e2e/large_run COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/e2e/large_run.py)
set_tests_properties(e2e/large_run PROPERTIES LABELS e2e TIMEOUT 300
  ENVIRONMENT "DTRSCOPE_BIN=$<TARGET_FILE:dtrscope>;DTRSCOPE_BUILD=${PROJECT_BINARY_DIR}")
