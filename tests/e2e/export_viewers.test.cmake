# Traces for viewers, read back by Python's json and by packages from web/node_modules, and compared
# with the events; operator logs, replayed beside the run that they came from.
add_executable(export_viewers_make ${CMAKE_CURRENT_LIST_DIR}/export_viewers_make.c)
target_link_libraries(export_viewers_make PRIVATE dtr_tools dtr_static)
add_test(NAME e2e/export_viewers
         COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/export_viewers.py $<TARGET_FILE:dtrscope>
                 $<TARGET_FILE:export_viewers_make> $<TARGET_FILE:charlm> $<TARGET_FILE:mlp>
                 $<TARGET_FILE:dtrscope_sqlite> ${PROJECT_SOURCE_DIR})
set_tests_properties(e2e/export_viewers PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 600)
if(DTR_SANITIZE MATCHES "address")
  set(runtime libasan.so)
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    set(runtime libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
  endif()
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${runtime}
                  OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  set_tests_properties(e2e/export_viewers PROPERTIES ENVIRONMENT "SANITIZER_RUNTIME=${runtime}")
endif()

find_program(NODE node)
if(NODE)
  add_test(NAME e2e/export_viewers_app
           COMMAND ${NODE} ${CMAKE_CURRENT_LIST_DIR}/export_viewers_app.mjs $<TARGET_FILE:dtrscope>
                   $<TARGET_FILE:charlm> ${PROJECT_SOURCE_DIR})
  set_tests_properties(e2e/export_viewers_app PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
