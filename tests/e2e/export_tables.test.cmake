# Tables read back by Python, hyparquet, DuckDB and apache-arrow, and compared row by row.
add_test(NAME e2e/export_tables
         COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/export_tables.py $<TARGET_FILE:dtrscope>
                 $<TARGET_FILE:charlm> $<TARGET_FILE:dtrscope_sqlite> ${PROJECT_SOURCE_DIR})
set_tests_properties(e2e/export_tables PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 600)
if(DTR_SANITIZE MATCHES "address")
  set(runtime libasan.so)
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    set(runtime libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
  endif()
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${runtime}
                  OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  set_tests_properties(e2e/export_tables PROPERTIES ENVIRONMENT "SANITIZER_RUNTIME=${runtime}")
endif()
