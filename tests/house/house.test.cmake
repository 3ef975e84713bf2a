find_program(PYTHON3 python3)
if(PYTHON3)
  add_test(NAME house/layers COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tests/house/layers.py)
  set_tests_properties(house/layers PROPERTIES LABELS house)
endif()
find_program(CLANG_FORMAT NAMES clang-format clang-format-14)
if(CLANG_FORMAT)
  file(GLOB_RECURSE FORMATTED CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/src/*.c ${PROJECT_SOURCE_DIR}/src/*.h
       ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/examples/*.c)
  add_test(NAME house/format COMMAND ${CLANG_FORMAT} --dry-run --Werror ${FORMATTED})
  set_tests_properties(house/format PROPERTIES LABELS house)
endif()
