# Files made by Python's own pickle and json, imported, and compared event by event.
find_program(PYTHON3 python3)
find_program(SQLITE3 sqlite3)
if(PYTHON3 AND SQLITE3)
  add_test(NAME e2e/import
    COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tests/e2e/import.py $<TARGET_FILE:dtrscope>
            $<TARGET_FILE:dtrscope_sqlite> ${PROJECT_SOURCE_DIR})
  set_tests_properties(e2e/import PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
