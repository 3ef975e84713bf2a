# The PyTorch adapter: build/python/dtrscope, with the shim for the PyTorch that python3 finds.
# DTR_TORCH: AUTO (when there is one), ON, OFF.
set(DTR_TORCH AUTO CACHE STRING "Build the PyTorch adapter: AUTO, ON or OFF")
set(DTR_TORCH_PYTHON "" CACHE STRING "The Python whose PyTorch it is for; empty: the first found")
set(DTR_TORCH_KEY Fake CACHE STRING "The dispatch key that it observes operators on")
set(DTR_TORCH_FOUND OFF)

if(NOT DTR_TORCH STREQUAL "OFF")
  set(torch_pythons python3 /usr/bin/python3)
  if(DTR_TORCH_PYTHON)
    set(torch_pythons ${DTR_TORCH_PYTHON})
  endif()
  foreach(python ${torch_pythons})
    execute_process(
      COMMAND ${python} ${PROJECT_SOURCE_DIR}/cmake/find_torch.py
      OUTPUT_VARIABLE torch_paths ERROR_VARIABLE torch_error RESULT_VARIABLE torch_result
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(torch_result EQUAL 0)
      set(torch_python ${python})
      break()
    endif()
  endforeach()
  if(torch_result EQUAL 0)
    string(REPLACE "|" ";" torch_includes "${torch_paths}")
    list(GET torch_includes 0 torch_version)
    list(GET torch_includes 1 torch_abi)
    list(POP_FRONT torch_includes)
    list(POP_FRONT torch_includes)
    list(POP_FRONT torch_includes torch_libraries)
    try_compile(DTR_TORCH_KEY_EXISTS ${PROJECT_BINARY_DIR}/torch_key
      SOURCES ${PROJECT_SOURCE_DIR}/cmake/torch_key.cpp
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${torch_includes}"
      COMPILE_DEFINITIONS -DDTR_TORCH_KEY=${DTR_TORCH_KEY} -D_GLIBCXX_USE_CXX11_ABI=${torch_abi}
      CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
      OUTPUT_VARIABLE torch_key_output)
    if(DTR_TORCH_KEY_EXISTS)
      set(DTR_TORCH_FOUND ON)
    else()
      set(torch_error "PyTorch ${torch_version} has no dispatch key '${DTR_TORCH_KEY}'; give \
another that is below autograd, above the backends and has no fallback, with -DDTR_TORCH_KEY=...")
      file(WRITE ${PROJECT_BINARY_DIR}/torch_key.log "${torch_key_output}")
    endif()
  endif()
  if(NOT DTR_TORCH_FOUND AND DTR_TORCH STREQUAL "ON")
    message(FATAL_ERROR "the PyTorch adapter: ${torch_error}")
  elseif(NOT DTR_TORCH_FOUND)
    message(STATUS "The PyTorch adapter is left out: ${torch_error}")
  endif()
endif()

if(DTR_TORCH_FOUND)
  message(STATUS "The PyTorch adapter is built for PyTorch ${torch_version}")
  file(GLOB TORCH_SOURCES CONFIGURE_DEPENDS src/torch/*.cpp)
  add_library(dtr_torch MODULE ${TORCH_SOURCES})
  target_compile_features(dtr_torch PRIVATE cxx_std_17)
  target_compile_definitions(dtr_torch PRIVATE DTR_TORCH_KEY=${DTR_TORCH_KEY}
                             _GLIBCXX_USE_CXX11_ABI=${torch_abi})
  target_include_directories(dtr_torch SYSTEM PRIVATE ${torch_includes})
  target_include_directories(dtr_torch PRIVATE src include)
  target_link_directories(dtr_torch PRIVATE ${torch_libraries})
  target_link_libraries(dtr_torch PRIVATE dtr_static c10 torch_cpu)
  target_link_options(dtr_torch PRIVATE -Wl,--no-undefined)
  set_target_properties(dtr_torch PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/dtrscope)
  file(GLOB_RECURSE TORCH_PYTHON CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src/torch/python
       src/torch/python/*.py)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/python/ DESTINATION lib/dtrscope/python
          PATTERN __pycache__ EXCLUDE)
  install(TARGETS dtr_torch DESTINATION lib/dtrscope/python/dtrscope)
  foreach(file ${TORCH_PYTHON})
    configure_file(src/torch/python/${file} ${PROJECT_BINARY_DIR}/python/${file} COPYONLY)
  endforeach()
endif()
